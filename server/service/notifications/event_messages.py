"""Writes messages about table events, from the log of commits and from ended jobs.

Each rule has a position in the log. A transaction writes messages and the position after them, so a server that dies at
any point neither loses an event nor writes it twice. A commit writes nothing for events: the log has it anyway.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from catalog.errors import NotFound
from catalog.names import CatalogName
from catalog.notifications.rule import Rule
from catalog.notifications.table_event import TableEvent, build_notification, describe_commit, describe_job
from catalog.ports.notifications import EventPosition, LogEnd
from catalog.ports.store import Database, UnitOfWork
from firn.protocol.notifications import ProblemKind

MOST_WAITING = 1_000
"""Messages of one rule that wait. A rule with more reads no further: the log keeps what follows."""
READ_AT_ONCE = 200
MOST_JOBS = 1_000
_MOST_PAGES = 20
SECONDS = 5.0
"""How long one run reads."""
JOBS_EVERY_SECONDS = 10.0
JOBS_OVERLAP = timedelta(minutes=1)
"""Jobs are read again for this time, because a transaction ends after the time that it notes."""
MOST_UNNOTED = 1_000
"""Commits of other tables that a rule passes before it notes that: to note each would be a write for each commit."""


@dataclass
class EventMessages:
    """The leader uses it, one run at a time. Two servers at once are harmless: they write each event once."""

    database: Database
    _seen: LogEnd | None = None
    _settled: int = 0
    _jobs_at: float | None = None
    _passed: dict[str, int] = field(default_factory=dict)
    """How far rules have read commits without noting it."""
    _jobs_passed: dict[str, datetime] = field(default_factory=dict)

    def collect(self, rules: Sequence[Rule]) -> int:
        """Write the messages of these rules; returns their number."""
        end, deadline = self._find_end(), time.monotonic() + SECONDS
        is_due = self._jobs_at is None or time.monotonic() - self._jobs_at >= JOBS_EVERY_SECONDS
        written = 0
        for rule in rules:
            while time.monotonic() < deadline:
                count, is_done = self._collect_commits(rule, end)
                written += count
                if is_done:
                    break
            if is_due and ProblemKind.JOB_ENDED in rule.kinds:
                written += self._collect_jobs(rule)
        if is_due:
            self._jobs_at = time.monotonic()
        return written

    def _find_end(self) -> int:
        """The number up to which the log is complete."""
        for _ in range(2):  # without concurrent commits, the second look settles what the first has seen
            with self.database.reading() as uow:
                if self._seen is not None and uow.event_messages.is_settled(self._seen):
                    self._settled, self._seen = max(self._settled, self._seen.event_id), None
                if self._seen is None:
                    self._seen = uow.event_messages.log_end()
        return self._settled

    def _collect_commits(self, rule: Rule, end: int) -> tuple[int, bool]:
        """Write the messages of some commits; returns their number, and whether nothing is left to read."""
        with self.database.reading() as uow:
            position = _find_position(uow, rule)
            if position is None or uow.event_messages.count_waiting(rule.id) > MOST_WAITING - READ_AT_ONCE:
                return 0, True
            after = max(position.event_id, self._passed.get(str(rule.id), 0))
            catalog = None if rule.catalog is None else CatalogName(rule.catalog)
            commits = uow.event_messages.commits(after, end, catalog, limit=READ_AT_ONCE)
            relations = uow.relations.get_many({commit.relation_id for commit in commits})
        described = [describe_commit(commit, relations.get(commit.relation_id)) for commit in commits]
        events = [event for event in described if event is not None and _matches(rule, event)]
        is_done = len(commits) < READ_AT_ONCE
        reached = max(after, end) if is_done else commits[-1].id
        if not events and reached - position.event_id < MOST_UNNOTED:
            self._passed[str(rule.id)] = reached
            return 0, is_done
        return self._write(rule, position, replace(position, event_id=reached), events), is_done

    def _collect_jobs(self, rule: Rule) -> int:
        """Write the messages of jobs that have ended since the position, and that are not written yet."""
        with self.database.reading() as uow:
            position = _find_position(uow, rule)
            if position is None or uow.event_messages.count_waiting(rule.id) > MOST_WAITING - READ_AT_ONCE:
                return 0
            until = max(position.jobs_until, self._jobs_passed.get(str(rule.id), position.jobs_until))
            until = min(until, uow.now())  # after the clock was set back, jobs end before the position
            new, reached = _find_new_jobs(uow, rule, max(until - JOBS_OVERLAP, rule.created_at))
        if not new:
            self._jobs_passed[str(rule.id)] = max(until, reached)
            return 0
        return self._write(rule, position, replace(position, jobs_until=max(until, new[-1].at)), new)

    def _write(self, rule: Rule, before: EventPosition, after: EventPosition, events: Sequence[TableEvent]) -> int:
        with self.database.writing() as uow:
            try:
                current = uow.notification_rules.lock(rule.name)
            except NotFound:
                return 0
            if current.id != rule.id or uow.notification_rules.event_position(rule.id) != before:
                return 0  # dropped, or another server has read on
            now = uow.now()
            written = sum(
                uow.event_messages.add(rule.id, event.table_id, build_notification(current, event, now))
                for event in events
            )
            uow.notification_rules.set_event_position(rule.id, after)
        return written


def _find_position(uow: UnitOfWork, rule: Rule) -> EventPosition | None:
    """The position of a rule; None if somebody has dropped it."""
    try:
        current = uow.notification_rules.get(rule.name)
    except NotFound:
        return None
    return uow.notification_rules.event_position(rule.id) if current.id == rule.id else None


def _find_new_jobs(uow: UnitOfWork, rule: Rule, since: datetime) -> tuple[Sequence[TableEvent], datetime]:
    """Events of ended jobs without a message, by the time of their end, and the time up to which none is left."""
    for _ in range(_MOST_PAGES):
        jobs = uow.event_messages.ended_jobs(since, limit=MOST_JOBS)
        events = [event for event in map(describe_job, jobs) if _matches(rule, event)]
        ids = {event.source: build_notification(rule, event, event.at).id for event in events}
        known = uow.event_messages.list_existing([*ids.values()])
        new = [event for event in events if ids[event.source] not in known]
        reached = jobs[-1].ended_at or since if jobs else since
        if new or len(jobs) < MOST_JOBS or reached == since:
            return new[:READ_AT_ONCE], reached
        since = reached
    return (), since


def _matches(rule: Rule, event: TableEvent) -> bool:
    return event.at >= rule.created_at and rule.watches_table(event.kind, event.catalog, str(event.table))
