"""Rules of notifications: an administrator creates, changes, silences, tries and drops them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import uuid4

from catalog.errors import CatalogError, Conflict, Invalid
from catalog.names import CatalogName
from catalog.notifications.message import Notification, NotificationId, build_test_message
from catalog.notifications.rule import (
    MOST_RULES,
    Rule,
    RuleId,
    Target,
    check_events,
    check_kinds,
    check_rule_name,
    check_target,
    describe_url,
    encode_secret,
)
from catalog.ports.kafka import PasswordSealer
from catalog.ports.notifications import Courier, EventPosition
from catalog.ports.page import Page
from catalog.ports.store import Database
from firn.protocol.notifications import Channel, NotificationState, ProblemKind
from server.service.access.caller import caller

_SECRET_BYTES = 32
_DROPPED = "the rule was dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDraft:
    """A rule that somebody wants to create."""

    name: str
    kinds: Sequence[ProblemKind]
    target: Target
    catalog: str | None = None
    resolved: bool = True
    tables: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleView:
    """A rule, its newest message, and the numbers of open problems, and of messages that wait or have failed."""

    rule: Rule
    last: Notification | None
    open: int
    waiting: int = 0
    failed: int = 0


@dataclass(frozen=True)
class NotificationRules:
    """The rules, and the history of their messages."""

    database: Database
    courier: Courier
    sealer: PasswordSealer
    console: str | None

    def create(self, draft: RuleDraft) -> tuple[RuleView, str | None]:
        """Create a rule. The second result is the secret of a webhook, if the server has created it.

        Raises Invalid, NoSuchCatalog and AlreadyExists.
        """
        check_rule_name(draft.name)
        kinds = check_kinds(draft.kinds)
        created = None
        if draft.target.channel is Channel.WEBHOOK and draft.target.secret is None:
            created = encode_secret(secrets.token_bytes(_SECRET_BYTES))
        target = check_target(draft.target if created is None else replace(draft.target, secret=created))
        if target.channel is Channel.MAIL and not self.courier.can_mail:
            raise Invalid("this server has no mail server", hint="set mail.host and mail.sender, see docs/settings.md")
        with self.database.writing() as uow:
            if draft.catalog is not None:
                uow.catalogs.get(CatalogName(draft.catalog))
            if len(uow.notification_rules.list()) >= MOST_RULES:
                raise Invalid(f"there are {MOST_RULES} rules already", hint="drop one")
            rule = Rule(
                id=RuleId(uuid4()),
                name=draft.name,
                kinds=kinds,
                channel=target.channel,
                catalog=draft.catalog,
                resolved=draft.resolved,
                created_at=uow.now(),
                created_by=caller.get().principal,
                tables=tuple(dict.fromkeys(draft.tables)),
            )
            check_events(rule)
            uow.notification_rules.add(self._seal(rule, target))
            if rule.reports_events:
                position = EventPosition(event_id=uow.events.last_id(), jobs_until=rule.created_at)
                uow.notification_rules.set_event_position(rule.id, position)
        return self.get(draft.name), created

    def get(self, name: str) -> RuleView:
        """One rule; raises NotFound."""
        with self.database.reading() as uow:
            rule = uow.notification_rules.get(name)
            last = uow.notifications.last_of([rule.id]).get(rule.id)
            counts = uow.notifications.count_by_rule().get(rule.id, {})
            return _build_view(rule, last, uow.notifications.count_open().get(rule.id, 0), counts)

    def list(self) -> Sequence[RuleView]:
        """All rules by name."""
        with self.database.reading() as uow:
            rules = uow.notification_rules.list()
            last = uow.notifications.last_of([rule.id for rule in rules])
            opened, counts = uow.notifications.count_open(), uow.notifications.count_by_rule()
        return [_build_view(rule, last.get(rule.id), opened.get(rule.id, 0), counts.get(rule.id, {})) for rule in rules]

    def change(self, name: str, kinds: Sequence[ProblemKind] | None, *, resolved: bool | None) -> RuleView:
        """Change what a rule reports; None keeps a value. Raises NotFound and Invalid."""
        with self.database.writing() as uow:
            rule = uow.notification_rules.lock(name)
            kinds = rule.kinds if kinds is None else check_kinds(kinds)
            if rule.reports_events != replace(rule, kinds=kinds).reports_events:
                raise Invalid(
                    "a rule of problems cannot become one of table events, or the reverse", hint="create a rule"
                )
            resolved = rule.resolved if resolved is None else resolved
            uow.notification_rules.put(replace(rule, kinds=kinds, resolved=resolved))
        return self.get(name)

    def silence(self, name: str, minutes: int, subject: str | None) -> RuleView:
        """Silence a rule or one of its subjects from now on; 0 minutes end a silence. Raises NotFound and Invalid."""
        with self.database.writing() as uow:
            rule, now = uow.notification_rules.lock(name), uow.now()
            until = now + timedelta(minutes=minutes) if minutes else None
            uow.notification_rules.put(rule.silence(until, subject, now))
        return self.get(name)

    def drop(self, name: str) -> None:
        """Drop a rule; raises NotFound. Its history stays for its time."""
        with self.database.writing() as uow:
            rule = uow.notification_rules.lock(name)
            uow.notifications.close_all(rule.id, _DROPPED, uow.now())
            uow.notification_rules.remove(rule.id)

    def test(self, name: str) -> str | None:
        """Send a test message now; returns why the receiver has not accepted it. Raises NotFound."""
        with self.database.reading() as uow:
            rule, now = uow.notification_rules.get(name), uow.now()
        try:
            self.courier.send(self.reveal_target(rule), build_test_message(rule.name, uuid4(), now, self.console))
        except CatalogError as error:
            return error.message if error.hint is None else f"{error.message}; {error.hint}"
        return None

    def reveal_target(self, rule: Rule) -> Target:
        """Where a rule sends its messages; Invalid if another key has encrypted it."""
        return Target(
            channel=rule.channel,
            url=None if rule.sealed_url is None else self.sealer.unseal_text(_label(rule, "address"), rule.sealed_url),
            secret=None
            if rule.sealed_secret is None
            else self.sealer.unseal_text(_label(rule, "secret"), rule.sealed_secret),
            recipients=rule.recipients,
        )

    def list_history(
        self, rule: str | None, states: Sequence[NotificationState], *, limit: int, cursor: str | None
    ) -> Page[Notification]:
        """The messages of all rules, newest first."""
        with self.database.reading() as uow:
            return uow.notifications.list(rule=rule, states=states, limit=limit, cursor=cursor)

    def retry(self, notification_id: NotificationId) -> Notification:
        """Send a failed message again; raises NotFound, and Conflict if it has not failed or its rule was dropped."""
        with self.database.writing() as uow:
            notification = uow.notifications.retry(notification_id, uow.now())
            if all(rule.name != notification.rule for rule in uow.notification_rules.list()):
                raise Conflict(f"the rule {notification.rule} was dropped")
            return notification

    def retry_all(self, name: str) -> int:
        """Send all failed messages of a rule again, and return their number; raises NotFound."""
        with self.database.writing() as uow:
            return uow.notifications.retry_all(uow.notification_rules.lock(name).id, uow.now())

    def count(self) -> Mapping[NotificationState, int]:
        """The number of messages by state."""
        with self.database.reading() as uow:
            return uow.notifications.count()

    def _seal(self, rule: Rule, target: Target) -> Rule:
        """The rule with its address and secret, encrypted for this rule alone."""
        url, secret = target.url, target.secret
        return replace(
            rule,
            shown_address=None if url is None else describe_url(target.channel, url),
            sealed_url=None if url is None else self.sealer.seal_text(_label(rule, "address"), url),
            sealed_secret=None if secret is None else self.sealer.seal_text(_label(rule, "secret"), secret),
            recipients=target.recipients,
        )


def _build_view(
    rule: Rule, last: Notification | None, opened: int, counts: Mapping[NotificationState, int]
) -> RuleView:
    waiting, failed = counts.get(NotificationState.WAITING, 0), counts.get(NotificationState.FAILED, 0)
    return RuleView(rule=rule, last=last, open=opened, waiting=waiting, failed=failed)


def _label(rule: Rule, part: str) -> str:
    return f"{part} of notification rule {rule.id}"
