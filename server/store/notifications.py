"""Messages of notifications in the database: an outbox with its history."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, or_, select, update

from catalog.errors import Conflict, NotFound
from catalog.notifications.message import Notification, NotificationId
from catalog.notifications.problem import OpenProblem, Problem
from catalog.notifications.rule import Rule, RuleId
from catalog.ports.page import Page
from firn.protocol.notifications import EVENT_KINDS, NotificationState, ProblemKind
from server.store import cursor as cursors
from server.store.notification_rows import NotificationRow
from server.store.session import ReadSession
from server.store.upsert import insert_unless_taken

_FIELDS = tuple(field.name for field in fields(Notification) if field.name != "number")
_WAITING = NotificationState.WAITING
_REMOVED_AT_ONCE = 1_000


@dataclass(frozen=True)
class SqlNotifications:
    """See catalog.ports.notifications.Notifications."""

    session: ReadSession

    def open(self, rule: Rule, problem: Problem, notification: Notification) -> bool:
        """Add the first message about a problem; a partial unique index allows one that has not ended."""
        values = to_values(notification) | {"rule_id": rule.id, "key": problem.key}
        return insert_unless_taken(self.session, NotificationRow, values)

    def add_resolution(self, rule: Rule, problem: OpenProblem, notification: Notification) -> None:
        """Add a message that a problem has ended."""
        values = to_values(notification) | {"rule_id": rule.id, "key": problem.key}
        self.session.add(NotificationRow(**values))
        self.session.flush()

    def list_open(self, rule_id: RuleId) -> Sequence[OpenProblem]:
        """List the problems of a rule that go on."""
        row = NotificationRow
        query = select(row.number, row.kind, row.key, row.since).where(row.rule_id == rule_id, row.ended_at.is_(None))
        return [
            OpenProblem(number=number, kind=ProblemKind(kind), key=key, since=since)
            for number, kind, key, since in self.session.execute(query)
        ]

    def get_by_number(self, number: int) -> Notification | None:
        """Find a message by its number."""
        row = self.session.get(NotificationRow, number)
        return None if row is None else to_notification(row)

    def close(self, number: int, now: datetime) -> bool:
        """Set the end of a problem, once."""
        row = NotificationRow
        closed = update(row).where(row.number == number, row.ended_at.is_(None)).values(ended_at=now)
        return self.session.execute(closed.returning(row.number)).first() is not None

    def close_all(self, rule_id: RuleId, reason: str, now: datetime) -> None:
        """End the problems of a rule, and give up its messages."""
        row = NotificationRow
        self.session.execute(update(row).where(row.rule_id == rule_id, row.ended_at.is_(None)).values(ended_at=now))
        waiting = update(row).where(row.rule_id == rule_id, row.state == _WAITING)
        self.session.execute(waiting.values(state=NotificationState.FAILED, error=reason, next_attempt_at=None))

    def release(self, rule_id: RuleId, number: int, now: datetime) -> None:
        """Let a silenced message be sent."""
        row = NotificationRow
        silenced = (row.rule_id == rule_id, row.number == number, row.state == NotificationState.SILENCED)
        self.session.execute(update(row).where(*silenced).values(state=_WAITING, next_attempt_at=now, error=None))

    def list_silenced(self, rule_id: RuleId) -> Sequence[Notification]:
        """List silenced messages about problems that go on."""
        row = NotificationRow
        query = select(row).where(
            row.rule_id == rule_id, row.ended_at.is_(None), row.state == NotificationState.SILENCED
        )
        return [to_notification(saved) for saved in self.session.scalars(query.order_by(row.number))]

    def list_due(self, now: datetime, *, limit: int) -> Sequence[tuple[RuleId, Notification]]:
        """List messages to send, oldest first."""
        row = NotificationRow
        query = select(row).where(row.state == _WAITING, row.next_attempt_at <= now, row.kind.not_in(EVENT_KINDS))
        rows = self.session.scalars(query.order_by(row.number).limit(limit))
        return [(RuleId(saved.rule_id), to_notification(saved)) for saved in rows]

    def claim(self, notification: Notification, until: datetime) -> bool:
        """Count an attempt, if nobody else has."""
        row = NotificationRow
        mine = update(row).where(
            row.id == notification.id, row.state == _WAITING, row.attempts == notification.attempts
        )
        values = {"attempts": notification.attempts + 1, "next_attempt_at": until}
        return self.session.execute(mine.values(**values).returning(row.number)).first() is not None

    def settle(
        self,
        notification_id: NotificationId,
        state: NotificationState,
        now: datetime,
        *,
        next_attempt_at: datetime | None = None,
        error: str | None = None,
    ) -> None:
        """Store the result of an attempt."""
        row = NotificationRow
        values: dict[str, Any] = {"state": state, "next_attempt_at": next_attempt_at, "error": error}
        if state is NotificationState.SENT:
            values["sent_at"] = now
        self.session.execute(update(row).where(row.id == notification_id, row.state == _WAITING).values(**values))

    def retry(self, notification_id: NotificationId, now: datetime) -> Notification:
        """Let a failed message be sent again."""
        query = select(NotificationRow).where(NotificationRow.id == notification_id).with_for_update()
        row = self.session.scalar(query)
        if row is None:
            raise NotFound(f"notification {notification_id} does not exist")
        if row.state != NotificationState.FAILED:
            raise Conflict(f"the notification has not failed: it is {row.state}")
        row.state, row.attempts, row.next_attempt_at, row.error = _WAITING, 0, now, None
        self.session.flush()
        return to_notification(row)

    def list(
        self,
        *,
        rule: str | None = None,
        states: Collection[NotificationState] = (),
        limit: int,
        cursor: str | None = None,
    ) -> Page[Notification]:
        """List messages, newest first."""
        query = select(NotificationRow)
        if rule is not None:
            query = query.where(NotificationRow.rule == rule)
        if states:
            query = query.where(NotificationRow.state.in_(states))
        if cursor is not None:
            query = query.where(NotificationRow.number < cursors.decode_number(cursor))
        rows = self.session.scalars(query.order_by(NotificationRow.number.desc()).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].number) if len(rows) > limit else None
        return Page([to_notification(row) for row in rows[:limit]], more)

    def last_of(self, rule_ids: Collection[RuleId]) -> Mapping[RuleId, Notification]:
        """The newest message of each rule."""
        row = NotificationRow
        newest = select(func.max(row.number)).where(row.rule_id.in_(rule_ids)).group_by(row.rule_id)
        rows = self.session.scalars(select(row).where(row.number.in_(newest)))
        return {RuleId(saved.rule_id): to_notification(saved) for saved in rows}

    def count_open(self) -> Mapping[RuleId, int]:
        """Count the open problems of each rule."""
        row = NotificationRow
        query = select(row.rule_id, func.count()).where(row.ended_at.is_(None)).group_by(row.rule_id)
        return {RuleId(rule_id): count for rule_id, count in self.session.execute(query)}

    def count_recent(self, rule_id: RuleId, since: datetime) -> int:
        """Count the messages of a rule that wait or were sent."""
        row = NotificationRow
        counted = or_(row.state == _WAITING, row.sent_at >= since)
        return self.session.scalar(select(func.count()).where(row.rule_id == rule_id, counted)) or 0

    def count(self) -> Mapping[NotificationState, int]:
        """Count the messages by state."""
        query = select(NotificationRow.state, func.count()).group_by(NotificationRow.state)
        return {NotificationState(state): count for state, count in self.session.execute(query)}

    def retry_all(self, rule_id: RuleId, now: datetime) -> int:
        """Let the failed messages of a rule be sent again."""
        row = NotificationRow
        failed = update(row).where(row.rule_id == rule_id, row.state == NotificationState.FAILED)
        values = {"state": _WAITING, "attempts": 0, "next_attempt_at": now, "error": None}
        return len(self.session.execute(failed.values(**values).returning(row.number)).all())

    def count_by_rule(self) -> Mapping[RuleId, Mapping[NotificationState, int]]:
        """Count the messages of each rule that wait or have failed."""
        row, counts = NotificationRow, dict[RuleId, dict[NotificationState, int]]()
        query = select(row.rule_id, row.state, func.count()).where(row.state.in_((_WAITING, NotificationState.FAILED)))
        for rule_id, state, count in self.session.execute(query.group_by(row.rule_id, row.state)):
            counts.setdefault(RuleId(rule_id), {})[NotificationState(state)] = count
        return counts

    def remove_before(self, moment: datetime, *, most: int) -> int:
        """Remove messages about problems that are old or too many."""
        row = NotificationRow
        return self._remove(row.kind.not_in(EVENT_KINDS), row.state != _WAITING, moment=moment, most=most)

    def remove_events(self, state: NotificationState, moment: datetime, *, most: int) -> int:
        """Remove messages about table events that are old or too many."""
        row = NotificationRow
        return self._remove(and_(row.kind.in_(EVENT_KINDS), row.state == state), moment=moment, most=most)

    def _remove(self, counted: ColumnElement[bool], *which: ColumnElement[bool], moment: datetime, most: int) -> int:
        """Remove at most a thousand in one transaction; `most` is a number of those that are `counted`."""
        row = NotificationRow
        newest = select(row.number).where(counted).order_by(row.number.desc()).offset(most).limit(1)
        last = self.session.scalar(newest)
        is_old = row.created_at < moment if last is None else or_(row.created_at < moment, row.number <= last)
        query = select(row.number).where(is_old, counted, row.ended_at.is_not(None), *which)
        numbers = self.session.scalars(query.order_by(row.number).limit(_REMOVED_AT_ONCE)).all()
        self.session.execute(delete(row).where(row.number.in_(numbers)))
        return len(numbers)


def to_values(notification: Notification) -> dict[str, Any]:
    """The columns of a message."""
    values = {name: getattr(notification, name) for name in _FIELDS}
    return values | {"kind": str(notification.kind), "state": str(notification.state)}


def to_notification(row: NotificationRow) -> Notification:
    """The message of a row."""
    values = {name: getattr(row, name) for name in _FIELDS}
    values |= {"kind": ProblemKind(row.kind), "state": NotificationState(row.state)}
    return Notification(**values, number=row.number)
