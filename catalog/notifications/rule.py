"""Rules of notifications: which problems a rule watches for, and where it sends its messages.

The address and the secret are no part of the rule. The database has them encrypted, and no answer has them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import NewType
from urllib.parse import urlsplit
from uuid import UUID

from catalog.errors import Invalid
from catalog.locations.addresses import check_address
from firn.protocol.notifications import EVENT_KINDS, Channel, ProblemKind

RuleId = NewType("RuleId", UUID)

LONGEST_NAME = 128
LONGEST_URL = 2_048
LONGEST_SUBJECT = 1_024
MOST_RULES = 100
MOST_RECIPIENTS = 50
MOST_SILENCES = 100
MOST_PATTERNS = 50
LONGEST_PATTERN = 512
SHORTEST_SECRET, LONGEST_SECRET = 24, 64
SECRET_PREFIX = "whsec_"  # noqa: S105 -- the prefix of all of them
"""How secrets of Standard Webhooks begin."""
_SHOWN = 80
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_RECIPIENT = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A named rule, without its address and secret in clear."""

    id: RuleId
    name: str
    kinds: tuple[ProblemKind, ...]
    channel: Channel
    created_at: datetime
    created_by: str | None = None
    catalog: str | None = None
    """The only catalog whose problems it reports; None for all, and for problems of no catalog."""
    shown_address: str | None = None
    sealed_url: str | None = field(default=None, repr=False)
    sealed_secret: str | None = field(default=None, repr=False)
    recipients: tuple[str, ...] = ()
    resolved: bool = True
    silenced_until: datetime | None = None
    silences: Mapping[str, datetime] = field(default_factory=dict)
    """The ends of the silences of single subjects."""
    tables: tuple[str, ...] = ()
    """Patterns of the names of tables whose events it reports; () for all."""

    def watches(self, kind: ProblemKind, catalog: str | None) -> bool:
        """Whether it reports problems of this kind in this catalog."""
        return kind in self.kinds and (self.catalog is None or self.catalog == catalog)

    @property
    def reports_events(self) -> bool:
        """Whether it reports table events instead of problems."""
        return any(kind in EVENT_KINDS for kind in self.kinds)

    def watches_table(self, kind: ProblemKind, catalog: str, table: str) -> bool:
        """Whether it reports events of this kind of this table."""
        matches = not self.tables or any(fnmatchcase(table, pattern) for pattern in self.tables)
        return matches and self.watches(kind, catalog)

    def is_silent(self, subject: str, now: datetime) -> bool:
        """Whether it keeps messages about this subject back now."""
        ends = (self.silenced_until, self.silences.get(subject))
        return any(end is not None and end > now for end in ends)

    def silence(self, until: datetime | None, subject: str | None, now: datetime) -> Rule:
        """The rule silent until then, as a whole or about one subject; None ends the silence."""
        if subject is None:
            return replace(self, silenced_until=until)
        if not 0 < len(subject) <= LONGEST_SUBJECT:
            raise Invalid(f"a subject has 1 to {LONGEST_SUBJECT:,} characters")
        if self.reports_events:
            raise Invalid("a rule of table events is silent as a whole only", hint="its tables narrow it: --table")
        silences = {name: end for name, end in self.silences.items() if end > now and name != subject}
        if until is not None:
            silences[subject] = until
        if len(silences) > MOST_SILENCES:
            raise Invalid(f"rule {self.name} has {MOST_SILENCES} silences already", hint="silence the whole rule")
        return replace(self, silences=silences)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a rule sends its messages, in clear."""

    channel: Channel
    url: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    recipients: tuple[str, ...] = ()


def check_rule_name(name: str) -> None:
    """Raise Invalid unless the name has 1 to 128 letters, digits, dots, hyphens and underscores."""
    if len(name) > LONGEST_NAME or _NAME.fullmatch(name) is None:
        raise Invalid(
            f"{name[:_SHOWN]!r} is not a name for a rule",
            hint=f"a name has 1 to {LONGEST_NAME} letters, digits, dots, hyphens and underscores",
        )


def check_kinds(kinds: Sequence[ProblemKind]) -> tuple[ProblemKind, ...]:
    """The kinds in the order of their enumeration, each once; Invalid without any, or for problems beside events."""
    if not kinds:
        raise Invalid("a rule needs at least one kind of problem", hint=f"such as {ProblemKind.JOB_FAILED}")
    if len({kind in EVENT_KINDS for kind in kinds}) > 1:
        raise Invalid("a rule reports either problems or table events", hint="create two rules")
    return tuple(kind for kind in ProblemKind if kind in kinds)


def check_events(rule: Rule) -> None:
    """Raise Invalid for patterns of tables that no rule can have, and for events by another channel than a webhook."""
    if not rule.reports_events:
        if rule.tables:
            raise Invalid("only a rule of table events has patterns of tables", hint="name the kinds of table events")
        return
    if rule.channel is not Channel.WEBHOOK:
        raise Invalid(f"table events need the channel {Channel.WEBHOOK}, not {rule.channel}")
    if len(rule.tables) > MOST_PATTERNS:
        raise Invalid(f"a rule has at most {MOST_PATTERNS} patterns of tables")
    for pattern in rule.tables:
        if not 0 < len(pattern) <= LONGEST_PATTERN or not pattern.isprintable():
            raise Invalid(
                f"{pattern[:_SHOWN]!r} is no pattern of tables",
                hint=f"write 1 to {LONGEST_PATTERN} printable characters, such as shop.*",
            )


def check_target(target: Target) -> Target:
    """The target itself; Invalid for a malformed value, or for values that do not go together."""
    is_mail = target.channel is Channel.MAIL
    if is_mail != (target.url is None) or is_mail != bool(target.recipients):
        raise Invalid(
            "a rule that sends mails has recipients and no address"
            if is_mail
            else f"a rule with channel {target.channel} has the address of a webhook and no recipients"
        )
    if target.secret is not None:
        if target.channel is not Channel.WEBHOOK:
            raise Invalid(f"a rule with channel {target.channel} has no secret: only webhooks are signed")
        decode_secret(target.secret)
    if target.url is not None:
        _check_url(target.url)
    _check_recipients(target.recipients)
    return target


def decode_secret(secret: str) -> bytes:
    """The key of a secret `whsec_…`; Invalid for another form or length. The message does not repeat it."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(SECRET_PREFIX) or not SHORTEST_SECRET <= len(key) <= LONGEST_SECRET:
        raise Invalid(
            f"the secret is not {SECRET_PREFIX} and {SHORTEST_SECRET} to {LONGEST_SECRET} bytes in base64",
            hint="leave it out, and the server creates one",
        )
    return key


def encode_secret(key: bytes) -> str:
    """The secret of a key."""
    return SECRET_PREFIX + base64.b64encode(key).decode("ascii")


def describe_url(channel: Channel, url: str) -> str:
    """The address as people may see it. The path of a Slack webhook is its password; so is the query of others."""
    parts = urlsplit(url)
    path = "/…" if channel is Channel.SLACK else parts.path
    return f"{parts.scheme}://{parts.netloc}{path}"


def _check_url(url: str) -> None:
    if not 0 < len(url) <= LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise Invalid(f"the address of a webhook has 1 to {LONGEST_URL:,} printable ASCII characters without spaces")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise Invalid("the address of the webhook is malformed") from error
    if parts.scheme not in ("http", "https") or not host:
        raise Invalid("the address of a webhook begins with https:// or http:// and a host")
    if parts.username is not None or parts.password is not None:
        raise Invalid("the address of a webhook has no user and no password", hint="receivers check the signature")
    check_address(host)


def _check_recipients(recipients: Sequence[str]) -> None:
    if len(recipients) > MOST_RECIPIENTS:
        raise Invalid(f"a rule has at most {MOST_RECIPIENTS} recipients")
    for recipient in recipients:
        if _RECIPIENT.fullmatch(recipient) is None:
            raise Invalid(f"{recipient[:_SHOWN]!r} is no address of a mailbox", hint="write NAME@HOST, without a name")
