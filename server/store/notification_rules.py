"""Rules of notifications in the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, delete, select, update

from catalog.errors import AlreadyExists, NotFound
from catalog.notifications.rule import Rule, RuleId
from firn.protocol.notifications import Channel, ProblemKind
from server.store.notification_rows import NotificationRuleRow
from server.store.session import ReadSession
from server.store.upsert import insert_unless_taken

_SAME = (
    "id",
    "name",
    "catalog",
    "shown_address",
    "sealed_url",
    "sealed_secret",
    "resolved",
    "silenced_until",
    "created_at",
    "created_by",
)


@dataclass(frozen=True)
class SqlNotificationRules:
    """See catalog.ports.notifications.NotificationRules."""

    session: ReadSession

    def add(self, rule: Rule) -> None:
        """Add a rule; AlreadyExists when the name exists."""
        if not insert_unless_taken(self.session, NotificationRuleRow, _values(rule)):
            raise AlreadyExists(f"rule {rule.name} already exists")

    def get(self, name: str) -> Rule:
        """Get a rule; NotFound."""
        return self._get(name, select(NotificationRuleRow))

    def lock(self, name: str) -> Rule:
        """Get a rule and lock it until the transaction ends; NotFound."""
        return self._get(name, select(NotificationRuleRow).with_for_update())

    def _get(self, name: str, query: Select[NotificationRuleRow]) -> Rule:
        row = self.session.scalar(query.where(NotificationRuleRow.name == name))
        if row is None:
            raise NotFound(f"rule {name!r} does not exist", hint="see the rules with `firn notification rule list`")
        return _rule(row)

    def put(self, rule: Rule) -> None:
        """Replace a rule."""
        self.session.execute(
            update(NotificationRuleRow).where(NotificationRuleRow.id == rule.id).values(**_values(rule))
        )

    def list(self) -> Sequence[Rule]:
        """List the rules by name."""
        return [
            _rule(row) for row in self.session.scalars(select(NotificationRuleRow).order_by(NotificationRuleRow.name))
        ]

    def remove(self, rule_id: RuleId) -> None:
        """Remove a rule."""
        self.session.execute(delete(NotificationRuleRow).where(NotificationRuleRow.id == rule_id))


def _values(rule: Rule) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in _SAME} | {
        "kinds": [str(kind) for kind in rule.kinds],
        "channel": str(rule.channel),
        "recipients": list(rule.recipients),
        "silences": {subject: until.isoformat() for subject, until in rule.silences.items()},
    }


def _rule(row: NotificationRuleRow) -> Rule:
    known = frozenset(ProblemKind)  # a rule of a newer server may have further kinds
    return Rule(
        **{name: getattr(row, name) for name in _SAME},
        kinds=tuple(ProblemKind(kind) for kind in row.kinds if kind in known),
        channel=Channel(row.channel),
        recipients=tuple(row.recipients),
        silences={subject: datetime.fromisoformat(until) for subject, until in row.silences.items()},
    )
