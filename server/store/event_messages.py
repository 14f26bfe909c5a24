"""Messages about table events in the database: what waits for each rule, in order, and what the events come from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select, text, update

from catalog.history.commit import CommitEvent
from catalog.jobs.job import Job, JobStatus
from catalog.names import CatalogName
from catalog.notifications.message import Notification, NotificationId
from catalog.notifications.rule import RuleId
from catalog.ports.notifications import LogEnd, WaitingEvent
from firn.protocol.notifications import NotificationState
from server.store.events import to_event
from server.store.job_rows import JobRow
from server.store.jobs import to_job
from server.store.notification_rows import NotificationRow
from server.store.notifications import to_notification, to_values
from server.store.rows import CommitEventRow
from server.store.session import ReadSession
from server.store.upsert import insert_unless_taken

_WAITING = NotificationState.WAITING
_ENDED = (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELED)
_NEXT_TRANSACTION = text("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
_OLDEST_TRANSACTION = text("SELECT pg_snapshot_xmin(pg_current_snapshot())::text")


@dataclass(frozen=True)
class SqlEventMessages:
    """See catalog.ports.notifications.EventMessages."""

    session: ReadSession

    def log_end(self) -> LogEnd:
        """Get the last number, and the transaction that comes after all that may still add a smaller one.

        PostgreSQL gives out numbers before transactions commit, so a smaller one may appear later. Who has a smaller
        number had a transaction id at that time. SQLite has one writer at a time: its numbers appear in order.
        """
        last = self.session.scalar(select(func.max(CommitEventRow.id))) or 0
        if self.session.get_bind().dialect.name == "sqlite":
            return LogEnd(last, 0)
        return LogEnd(last, int(self.session.scalar(_NEXT_TRANSACTION) or 0))

    def is_settled(self, end: LogEnd) -> bool:
        """Compare with the oldest transaction that goes on."""
        if self.session.get_bind().dialect.name == "sqlite":
            return True
        return int(self.session.scalar(_OLDEST_TRANSACTION) or 0) >= end.transaction

    def commits(self, after: int, until: int, catalog: CatalogName | None, *, limit: int) -> Sequence[CommitEvent]:
        """List commits by number."""
        row = CommitEventRow
        query = select(row).where(row.id > after, row.id <= until)
        if catalog is not None:
            query = query.where(row.catalog == catalog)
        return [to_event(commit) for commit in self.session.scalars(query.order_by(row.id).limit(limit))]

    def ended_jobs(self, since: datetime, *, limit: int) -> Sequence[Job]:
        """List ended jobs by the index of ends."""
        query = select(JobRow).where(JobRow.ended_at >= since, JobRow.status.in_(_ENDED))
        return [
            to_job(row) for row in self.session.scalars(query.order_by(JobRow.ended_at, JobRow.number).limit(limit))
        ]

    def list_existing(self, ids: Collection[NotificationId]) -> Collection[NotificationId]:
        """Find which messages exist."""
        query = select(NotificationRow.id).where(NotificationRow.id.in_(ids))
        return {NotificationId(key) for key in self.session.scalars(query)}

    def add(self, rule_id: RuleId, table_id: str, notification: Notification) -> bool:
        """Add a message unless it exists."""
        values = to_values(notification) | {"rule_id": rule_id, "key": table_id}
        return insert_unless_taken(self.session, NotificationRow, values)

    def count_waiting(self, rule_id: RuleId) -> int:
        """Count by an index."""
        row = NotificationRow
        return self.session.scalar(select(func.count()).where(row.rule_id == rule_id, row.state == _WAITING)) or 0

    def list_waiting(self, rule_id: RuleId, *, limit: int) -> Sequence[WaitingEvent]:
        """List by number, without the texts."""
        row = NotificationRow
        query = select(row.id, row.key, row.next_attempt_at).where(row.rule_id == rule_id, row.state == _WAITING)
        rows = self.session.execute(query.order_by(row.number).limit(limit))
        return [WaitingEvent(NotificationId(key), table_id, due) for key, table_id, due in rows if due is not None]

    def load(self, ids: Collection[NotificationId]) -> Sequence[Notification]:
        """Load messages by number."""
        query = select(NotificationRow).where(NotificationRow.id.in_(ids)).order_by(NotificationRow.number)
        return [to_notification(row) for row in self.session.scalars(query)]

    def claim(self, ids: Collection[NotificationId], now: datetime, until: datetime) -> int:
        """Claim those that are due."""
        row = NotificationRow
        due = update(row).where(row.id.in_(ids), row.state == _WAITING, row.next_attempt_at <= now)
        return len(self.session.execute(due.values(next_attempt_at=until).returning(row.number)).all())

    def count_attempt(self, ids: Collection[UUID]) -> None:
        """Count an attempt of each."""
        row = NotificationRow
        self.session.execute(update(row).where(row.id.in_(ids)).values(attempts=row.attempts + 1))

    def settle_sent(self, ids: Collection[NotificationId], now: datetime) -> None:
        """Store that messages have arrived."""
        row = NotificationRow
        values = {"state": NotificationState.SENT, "sent_at": now, "next_attempt_at": None, "error": None}
        self.session.execute(update(row).where(row.id.in_(ids), row.state == _WAITING).values(**values))

    def unclaim(self, ids: Collection[NotificationId], now: datetime) -> None:
        """Let messages that were not tried be sent at once."""
        row = NotificationRow
        self.session.execute(update(row).where(row.id.in_(ids), row.state == _WAITING).values(next_attempt_at=now))
