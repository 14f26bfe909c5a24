"""Rules of notifications and the history of their messages: `client.notifications`. They need an administrator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from firn.history import quoted
from firn.protocol.answers.notifications import (
    CreatedRuleOut,
    NotificationOut,
    NotificationTestOut,
    RetriedOut,
    RuleOut,
)
from firn.protocol.notifications import Channel, NotificationState, ProblemKind
from firn.transport import Json, Transport

_PATH = "/notifications"
_RULES = f"{_PATH}/rules"


@dataclass(frozen=True, slots=True)
class Notifications:
    """The server's rules, and the messages that they have sent."""

    transport: Transport

    def rules(self) -> list[RuleOut]:
        """All rules by name, each with its newest message."""
        return [RuleOut.read(document) for document in self.transport.get(_RULES)]

    def rule(self, name: str) -> RuleOut:
        """One rule."""
        return RuleOut.read(self.transport.get(_path(name)))

    def create_rule(  # noqa: PLR0913 -- one for each property of a rule
        self,
        name: str,
        kinds: Sequence[ProblemKind | str],
        *,
        channel: Channel | str = Channel.WEBHOOK,
        url: str | None = None,
        secret: str | None = None,
        recipients: Sequence[str] = (),
        catalog: str | None = None,
        resolved: bool = True,
        tables: Sequence[str] = (),
    ) -> CreatedRuleOut:
        """Create a rule. Without a `secret`, the answer has the one that the server has created for a webhook.

        `tables` are patterns, such as `shop.*`, for a rule of table events.
        """
        body = {
            "name": name,
            "kinds": [str(kind) for kind in kinds],
            "channel": str(channel),
            "url": url,
            "secret": secret,
            "recipients": [*recipients],
            "catalog": catalog,
            "resolved": resolved,
            "tables": [*tables],
        }
        return CreatedRuleOut.read(self.transport.change("POST", _RULES, body))

    def change_rule(
        self, name: str, *, kinds: Sequence[ProblemKind | str] | None = None, resolved: bool | None = None
    ) -> RuleOut:
        """Change what a rule reports; None keeps a value."""
        body: Json = {"kinds": None if kinds is None else [str(kind) for kind in kinds], "resolved": resolved}
        return RuleOut.read(self.transport.change("PATCH", _path(name), body))

    def test_rule(self, name: str) -> NotificationTestOut:
        """Have the server send a test message."""
        return NotificationTestOut.read(self.transport.change("POST", f"{_path(name)}/test"))

    def retry_rule(self, name: str) -> int:
        """Send all failed messages of a rule again; returns their number."""
        return RetriedOut.read(self.transport.change("POST", f"{_path(name)}/retry")).retried

    def silence_rule(self, name: str, minutes: int, *, subject: str | None = None) -> RuleOut:
        """Keep the messages of a rule back for some minutes, or those about one subject; 0 ends the silence."""
        body: Json = {"minutes": minutes, "subject": subject}
        return RuleOut.read(self.transport.change("POST", f"{_path(name)}/silence", body))

    def drop_rule(self, name: str) -> None:
        """Drop a rule."""
        self.transport.change("DELETE", _path(name))

    def list(
        self, *, rule: str | None = None, states: Sequence[NotificationState | str] = ()
    ) -> Iterator[NotificationOut]:
        """The messages of rules, newest first."""
        params = {"rule": rule, "state": [str(state) for state in states]}
        yield from map(NotificationOut.read, self.transport.items(_PATH, params))

    def retry(self, notification_id: str) -> NotificationOut:
        """Send a failed message again."""
        return NotificationOut.read(self.transport.change("POST", f"{_PATH}/{quoted(notification_id)}/retry"))


def _path(name: str) -> str:
    return f"{_RULES}/{quoted(name)}"
