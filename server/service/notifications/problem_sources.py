"""The problems that go on now, from what the database says about jobs, optimizers, streams, Hive and pipelines."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import quote

from catalog.jobs.job import Job, JobStatus
from catalog.jobs.operation import Operation
from catalog.notifications.problem import Problem
from catalog.ports.notifications import Divergence, EndedWave
from catalog.ports.store import Database, UnitOfWork
from catalog.ports.streams import NamedStream, StreamFilter
from firn.protocol.notifications import ProblemKind
from firn.protocol.operations import OperationKind
from firn.protocol.streams import StreamStatus
from server.service.pipelines.measurements import PipelineMeasurements, TableMeasurements

MOST = 500
"""Problems of one kind in one look. A kind with more is not complete: none of its problems counts as ended."""
MOST_WAVES = 20
WINDOW = timedelta(days=7)
"""How long a failed job or a check of keys is a problem, if nothing follows it."""
EVENTS_KEPT = timedelta(days=1)
"""How long an ended operation is looked for."""
PAUSE_SECONDS = 60.0
"""A server that has not looked for longer may have been away."""
SLOW_SECONDS = 60.0
"""Interval of the looks that read more."""
_SLOW = frozenset({ProblemKind.NOT_FRESH, ProblemKind.MIGRATION_ENDED, ProblemKind.DUPLICATE_KEYS})


@dataclass(frozen=True, slots=True)
class Findings:
    """The problems of one look, and the kinds of which it has all."""

    problems: Sequence[Problem]
    complete: Collection[ProblemKind]


@dataclass
class ProblemSources:
    """Looks for problems. The leader uses it, one look at a time."""

    database: Database
    measurements: PipelineMeasurements
    lease: timedelta
    clock: Callable[[], float] = time.monotonic
    measured: set[str] = field(default_factory=set)
    """The keys of the tables of pipelines in the last look."""
    _began: float | None = None
    _last: float | None = None
    _slow_at: float | None = None

    def find(self, kinds: Collection[ProblemKind]) -> Findings:
        """Look for problems of these kinds."""
        due = self._choose_due(kinds)
        problems, complete = list[Problem](), set[ProblemKind]()
        if ProblemKind.NOT_FRESH in due:  # it opens transactions of its own
            problems += self._find_late_tables()
            complete.add(ProblemKind.NOT_FRESH)
        with self.database.reading() as uow:
            for kind, look in _LOOKS.items():
                if kind not in due:
                    continue
                current = look(uow, self.lease)
                problems += current
                if len(current) < MOST:
                    complete.add(kind)
        return Findings([problem.cleaned() for problem in problems], complete)

    def _choose_due(self, kinds: Collection[ProblemKind]) -> set[ProblemKind]:
        """The kinds to look for now. After a pause, optimizers first get time for a sign of life."""
        now, lease = self.clock(), self.lease.total_seconds()
        if self._began is None or self._last is None or now - self._last > max(lease, PAUSE_SECONDS):
            self._began = now
        self._last = now
        due = set(kinds)
        if now - self._began <= lease:
            due.discard(ProblemKind.OPTIMIZER_LOST)
        if self._slow_at is not None and now - self._slow_at < SLOW_SECONDS:
            return due - _SLOW
        self._slow_at = now
        return due

    def _find_late_tables(self) -> list[Problem]:
        measured = self.measurements.load()
        with self.database.reading() as uow:
            now = uow.now()
        self.measured = {table_key(table.catalog, table.table) for table in measured}
        return [problem for table in measured if (problem := _late_table(table, now)) is not None]


def table_key(catalog: str, table: str) -> str:
    """The key of a table of a pipeline, whose name may be longer than a key."""
    return hashlib.sha256(f"{catalog}\0{table}".encode()).hexdigest()


def _late_table(table: TableMeasurements, now: datetime) -> Problem | None:
    if table.behind_since is None or table.target_seconds is None:
        return None
    since = table.behind_since + timedelta(seconds=table.target_seconds)
    if since >= now:
        return None
    return Problem(
        kind=ProblemKind.NOT_FRESH,
        key=table_key(table.catalog, table.table),
        catalog=table.catalog,
        subject=table.table,
        title=f"{table.table} is not fresh",
        message=(
            f"Its oldest change that waits is from {table.behind_since:%Y-%m-%d %H:%M:%S} UTC; fresh_within allows"
            f" {timedelta(seconds=round(table.target_seconds))}. State: {table.state}."
        ),
        link="/pipelines",
        since=since,
    )


def _find_failed_jobs(uow: UnitOfWork, _lease: timedelta) -> list[Problem]:
    failed = uow.problem_facts.failed_jobs(uow.now() - WINDOW, limit=MOST)
    return [_failed_job(job) for job in failed]


def _failed_job(job: Job) -> Problem:
    return Problem(
        kind=ProblemKind.JOB_FAILED,
        key=f"{job.subject_id}:{job.kind}",
        catalog=str(job.catalog),
        subject=str(job.table),
        title=f"{job.kind} of {job.table} failed",
        message=job.error or "The job has no message.",
        link=f"/jobs/{job.id}",
        since=job.ended_at or job.created_at,
    )


def _find_unknown_jobs(uow: UnitOfWork, _lease: timedelta) -> list[Problem]:
    return [
        Problem(
            kind=ProblemKind.JOB_UNKNOWN,
            key=str(job.id),
            catalog=str(job.catalog),
            subject=str(job.table),
            title=f"{job.kind} of {job.table} has an unknown outcome",
            message="Its optimizer fell silent during the commit. The server checks the table and settles the outcome.",
            link=f"/jobs/{job.id}",
            since=job.lease_until or job.leased_at or job.created_at,
        )
        for job in uow.jobs.with_status([JobStatus.UNKNOWN])[:MOST]
    ]


def _find_lost_optimizers(uow: UnitOfWork, lease: timedelta) -> list[Problem]:
    now = uow.now()
    return [
        Problem(
            kind=ProblemKind.OPTIMIZER_LOST,
            key=str(optimizer.id),
            catalog=None,
            subject=str(optimizer.id),
            title=f"Optimizer {optimizer.id} is lost",
            message=(
                f"The last sign of life of this optimizer of group {optimizer.group} on {optimizer.host} was at"
                f" {optimizer.last_seen_at:%Y-%m-%d %H:%M:%S} UTC. Its jobs return to the queue."
            ),
            link="/optimizers",
            since=optimizer.last_seen_at + lease,
        )
        for optimizer in uow.optimizers.list()
        if optimizer.is_silent(now, lease) and not optimizer.stopping
    ][:MOST]


def _find_stopped_streams(uow: UnitOfWork, _lease: timedelta) -> list[Problem]:
    page = uow.streams.list(StreamFilter(statuses=(StreamStatus.STOPPED,)), limit=MOST)
    return [_stopped_stream(named) for named in page.items]


def _stopped_stream(named: NamedStream) -> Problem:
    stream = named.stream
    return Problem(
        kind=ProblemKind.STREAM_STOPPED,
        key=str(stream.id),
        catalog=str(stream.catalog),
        subject=str(named.table),
        title=f"The stream into {named.table} has stopped",
        message="\n".join(part for part in (stream.reason, stream.remedy) if part) or "It has no message.",
        link=f"/streams?stream={stream.id}",
        since=stream.changed_at,
    )


def _find_divergences(uow: UnitOfWork, _lease: timedelta) -> list[Problem]:
    now = uow.now()
    return [_divergence(divergence, now) for divergence in uow.problem_facts.divergences(limit=MOST)]


def _divergence(divergence: Divergence, now: datetime) -> Problem:
    return Problem(
        kind=ProblemKind.OUT_OF_SYNC,
        key=str(divergence.relation_id),
        catalog=str(divergence.catalog),
        subject=str(divergence.table),
        title=f"{divergence.table} and its Hive table are out of sync",
        message=divergence.message,
        link=_table_link(str(divergence.catalog), str(divergence.table)),
        since=divergence.since or now,
    )


def _find_duplicate_keys(uow: UnitOfWork, _lease: timedelta) -> list[Problem]:
    checks = uow.problem_facts.key_checks(uow.now() - WINDOW, limit=MOST)
    return [_duplicate_keys(job) for job in checks if has_duplicates(job)]


def has_duplicates(job: Job) -> bool:
    """Whether a check of keys has found keys that occur more than once, and has left them there."""
    keys = job.result.get("keys")  # an optimizer's report
    return isinstance(keys, int) and keys > 0 and "removed_rows" not in job.result


def _duplicate_keys(job: Job) -> Problem:
    surplus = job.result.get("surplus_rows")
    rows = f", with {surplus:,} rows too many" if isinstance(surplus, int) else ""
    return Problem(
        kind=ProblemKind.DUPLICATE_KEYS,
        key=str(job.subject_id),
        catalog=str(job.catalog),
        subject=str(job.table),
        title=f"{job.table} has duplicate keys",
        message=f"{job.result['keys']:,} keys occur more than once{rows}. The job shows some of them.",
        link=f"/jobs/{job.id}",
        since=job.ended_at or job.created_at,
    )


def _find_ended_migrations(uow: UnitOfWork, _lease: timedelta) -> list[Problem]:
    since = uow.now() - EVENTS_KEPT
    operations = uow.problem_facts.ended_operations(since, limit=MOST)
    waves = uow.problem_facts.ended_waves(since, limit=MOST_WAVES)
    return [*map(_ended_operation, operations), *(_ended_wave(uow, wave) for wave in waves)][:MOST]


def _ended_operation(operation: Operation) -> Problem:
    return Problem(
        kind=ProblemKind.MIGRATION_ENDED,
        key=str(operation.id),
        catalog=str(operation.catalog),
        subject=operation.target,
        title=f"{operation.kind} of {operation.target}: {operation.outcome}",
        message="\n".join(part for part in (operation.error, operation.hint) if part)
        or operation.message
        or "It has ended.",
        link=_operation_link(operation),
        since=operation.ended_at or operation.updated_at,
    )


def _ended_wave(uow: UnitOfWork, wave: EndedWave) -> Problem:
    outcomes = uow.operations.tally(wave.batch).outcomes
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
    turn = "ended" if wave.stopped is None else "stopped"
    reason = "" if wave.stopped is None else f"{wave.stopped}. "
    return Problem(
        kind=ProblemKind.MIGRATION_ENDED,
        key=f"{wave.batch}:{turn}",
        catalog=str(wave.catalog),
        subject=wave.name,
        title=f"Wave {wave.name} has {turn}",
        message=f"{reason}Of {wave.tables:,} tables: {counts}.",
        link=f"/c/{quote(str(wave.catalog), safe='')}/migration",
        since=wave.ended_at,
    )


def _operation_link(operation: Operation) -> str:
    catalog = f"/c/{quote(str(operation.catalog), safe='')}"
    if operation.kind is OperationKind.IMPORT:
        return f"{catalog}/import?operation={operation.id}"
    if operation.kind is OperationKind.UPGRADE:
        return f"{catalog}/hive/{quote(operation.target, safe='')}/upgrade?operation={operation.id}"
    return f"{catalog}/hive"


def _table_link(catalog: str, table: str) -> str:
    return f"/c/{quote(catalog, safe='')}/tables/{quote(table, safe='')}"


_LOOKS: dict[ProblemKind, Callable[[UnitOfWork, timedelta], list[Problem]]] = {
    ProblemKind.JOB_FAILED: _find_failed_jobs,
    ProblemKind.JOB_UNKNOWN: _find_unknown_jobs,
    ProblemKind.OPTIMIZER_LOST: _find_lost_optimizers,
    ProblemKind.STREAM_STOPPED: _find_stopped_streams,
    ProblemKind.OUT_OF_SYNC: _find_divergences,
    ProblemKind.DUPLICATE_KEYS: _find_duplicate_keys,
    ProblemKind.MIGRATION_ENDED: _find_ended_migrations,
}
