"""Rules of notifications in the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, delete, select, update

from catalog.errors import AlreadyExists, NotFound
from catalog.notifications.rule import Rule, RuleId
from catalog.ports.notifications import EventPosition
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

    def event_position(self, rule_id: RuleId) -> EventPosition:
        """Get what a rule has read; a rule without a position has read nothing."""
        row = NotificationRuleRow
        query = select(row.events_until, row.jobs_until, row.created_at).where(row.id == rule_id)
        event_id, jobs_until, created_at = self.session.execute(query).one()
        return EventPosition(event_id=event_id or 0, jobs_until=jobs_until or created_at)

    def set_event_position(self, rule_id: RuleId, position: EventPosition) -> None:
        """Set what a rule has read."""
        values = {"events_until": position.event_id, "jobs_until": position.jobs_until}
        self.session.execute(update(NotificationRuleRow).where(NotificationRuleRow.id == rule_id).values(**values))

    def remove(self, rule_id: RuleId) -> None:
        """Remove a rule."""
        self.session.execute(delete(NotificationRuleRow).where(NotificationRuleRow.id == rule_id))


def _values(rule: Rule) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in _SAME} | {
        "kinds": [str(kind) for kind in rule.kinds],
        "channel": str(rule.channel),
        "recipients": list(rule.recipients),
        "silences": {subject: until.isoformat() for subject, until in rule.silences.items()},
        "tables": list(rule.tables),
    }


def _rule(row: NotificationRuleRow) -> Rule:
    known = frozenset(ProblemKind)  # a rule of a newer server may have further kinds
    return Rule(
        **{name: getattr(row, name) for name in _SAME},
        kinds=tuple(ProblemKind(kind) for kind in row.kinds if kind in known),
        channel=Channel(row.channel),
        recipients=tuple(row.recipients),
        silences={subject: datetime.fromisoformat(until) for subject, until in row.silences.items()},
        tables=tuple(row.tables or ()),
    )
