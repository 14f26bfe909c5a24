"""Sends OpenLineage events of pipelines' runs, from what the database says about them.

No run waits for it: the leader looks for runs that have begun or ended, and sends events from a bounded queue. Events
that do not fit are dropped and counted. What it has sent is in memory: a server that becomes the leader begins with the
runs that are active then. So a restart may lose the end of a run, and repeat the start of one.
"""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from catalog.errors import Conflict, Invalid, NotFound
from catalog.jobs.job import Job, JobId, JobKind, JobStatus
from catalog.pipelines.openlineage import Decision, EventBuilder, Json, RunOfPipeline, is_held
from catalog.pipelines.pipeline import PipelineTableId
from catalog.ports.lineage_events import LineageSink
from catalog.ports.store import Database, UnitOfWork
from server.prometheus import LINEAGE_EVENTS
from server.service.pipelines.runs import read_run_tables
from server.service.pipelines.targets import find_checkpoint

log = logging.getLogger(__name__)

MOST_WAITING = 1_000
"""The events in the queue."""
MOST_BYTES = 32 * 1024 * 1024
LONGEST_EVENT = 512 * 1024
"""In bytes. A longer event goes without its SQL and the lineage of columns."""
MOST_RUNS = 200
"""The ended runs of one look; the next look goes on after them."""
SENDING_SECONDS = 20.0
"""How long one activation sends events; the others come with the next one."""
_UNSETTLED = timedelta(minutes=1)
"""How long a transaction may take: a run may become visible after others that ended later."""
_ABSENCE = timedelta(minutes=2)
"""After that time without a look another server may have led."""
_MOST_STARTED = 10_000
_MOST_HELD = 1_000
"""The held runs whose publication is waited for."""
_ACTIVE = (JobStatus.RUNNING, JobStatus.COMMITTING, JobStatus.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageStatus:
    """What one activation did, as counts of events."""

    sent: int = 0
    waiting: int = 0
    dropped: int = 0


@dataclass
class LineageEvents:
    """The leader runs it, one activation at a time."""

    database: Database
    sink: LineageSink
    builder: EventBuilder
    _since: datetime | None = None
    _looked_at: datetime | None = None
    _started: set[JobId] = field(default_factory=set)
    _ended: dict[JobId, datetime] = field(default_factory=dict)
    """Runs that have ended since `_since`, with their events in the queue or sent."""
    _held: dict[JobId, PipelineTableId] = field(default_factory=dict)
    """Runs whose rows wait for approval, each with one of its tables."""
    _queue: deque[bytes] = field(default_factory=deque)
    _bytes: int = 0

    def activate(self) -> LineageStatus:
        """Find runs that have begun or ended, and send their events. Raises CatalogError if the sink takes none."""
        dropped = self._collect()
        sent, refused = self._send()
        return LineageStatus(sent=sent, waiting=len(self._queue), dropped=dropped + refused)

    def _collect(self) -> int:
        """Put the events of new states of runs into the queue; returns the number of those that it dropped."""
        events = list[bytes]()
        with self.database.reading() as uow:
            now = uow.now()
            self._begin_anew(uow, now)
            active = [job for job in uow.jobs.with_status(_ACTIVE) if job.kind is JobKind.PIPELINE]
            ended = [] if self._since is None else uow.pipeline_facts.list_ended_runs(self._since, limit=MOST_RUNS)
            for job in ended:
                if job.id not in self._ended:
                    events += self._end(uow, job)
            events += self._decide(uow)
            self._held |= {job.id: held for job in ended if (held := self._find_held(job)) is not None}
            for job in active:
                if job.id not in self._started:
                    events += self._start(uow, job)
        self._move(now, ended, active)
        return self._enqueue(events)

    def _begin_anew(self, uow: UnitOfWork, now: datetime) -> None:
        """Forget what was sent before another server may have led. After the clock was set back, look further back.

        Then a run of the last minute may get its end twice, but none is missed.
        """
        if self._looked_at is None or now - self._looked_at > _ABSENCE:
            self._since = None
            self._started.clear()
            self._ended.clear()
            self._held = dict(uow.held_runs.list_waiting_runs(limit=_MOST_HELD))
        elif now < self._looked_at and self._since is not None:
            self._since = min(self._since, now - _UNSETTLED)
        self._looked_at = now

    def _move(self, now: datetime, ended: Sequence[Job], active: Sequence[Job]) -> None:
        """Remember what the queue has, for as long as the next look may find it again."""
        self._ended |= {job.id: job.ended_at for job in ended if job.ended_at is not None}
        until = now - _UNSETTLED
        if len(ended) == MOST_RUNS and ended[-1].ended_at is not None:
            until = min(until, ended[-1].ended_at)
        self._since = now if self._since is None else max(self._since, until)
        self._ended = {job_id: at for job_id, at in self._ended.items() if at >= self._since}
        running = {job.id for job in active}
        if len(self._started) > _MOST_STARTED:  # runs that wait for another attempt are among them
            self._started.clear()
        self._started = (self._started | running) - self._ended.keys()

    def _start(self, uow: UnitOfWork, job: Job) -> list[bytes]:
        run = _load(uow, job)
        return [] if run is None else [self._encode(self.builder.build_start, run)]

    def _end(self, uow: UnitOfWork, job: Job) -> list[bytes]:
        """The end of a run, and its start if no look has seen it; nothing of a run that never began."""
        if job.leased_at is None:
            return []
        run = _load(uow, job)
        if run is None:
            return []
        start = [] if job.id in self._started else [self._encode(self.builder.build_start, run)]
        return [*start, self._encode(self.builder.build_end, run)]

    def _find_held(self, job: Job) -> PipelineTableId | None:
        """The table of a run whose rows wait, if this look is the first one after its end."""
        is_new = job.id not in self._ended and is_held(job) and len(self._held) < _MOST_HELD
        return PipelineTableId(job.subject_id) if is_new else None

    def _decide(self, uow: UnitOfWork) -> list[bytes]:
        """The events of held runs that users have published or discarded since the last look."""
        states = uow.held_runs.find_published(set(self._held.values())) if self._held else {}
        events = list[bytes]()
        for job_id, table_id in list(self._held.items()):
            held_job, published_at = states.get(table_id, (None, None))
            if held_job == job_id and published_at is None:
                continue
            del self._held[job_id]
            run = _load_held(uow, job_id)
            if run is not None:
                at = published_at if held_job == job_id else None
                is_published = at is not None or _is_committed(uow, run)
                decision = Decision(is_published, at or uow.now())
                events.append(self._encode(partial(self.builder.build_decision, decision=decision), run))
        return events

    def _encode(self, build: Callable[..., Json], run: RunOfPipeline) -> bytes:
        event = json.dumps(build(run)).encode()
        return event if len(event) <= LONGEST_EVENT else json.dumps(build(run, is_short=True)).encode()

    def _enqueue(self, events: Sequence[bytes]) -> int:
        """Put events into the queue; returns the number of the oldest ones that had to go."""
        dropped = 0
        for event in events:
            self._queue.append(event)
            self._bytes += len(event)
            while len(self._queue) > MOST_WAITING or self._bytes > MOST_BYTES:
                self._take()
                dropped += 1
        LINEAGE_EVENTS.labels("dropped").inc(dropped)
        return dropped

    def _take(self) -> None:
        self._bytes -= len(self._queue.popleft())

    def _send(self) -> tuple[int, int]:
        """Send events until the queue is empty, or the time is up; the numbers of those sent, and of those refused."""
        deadline, sent, refused = time.monotonic() + SENDING_SECONDS, 0, 0
        while self._queue and time.monotonic() < deadline:
            try:
                self.sink.send(self._queue[0])
            except Invalid as error:
                log.warning("an OpenLineage event was dropped: %s", error.message)
                refused += 1
                LINEAGE_EVENTS.labels("dropped").inc()
            else:
                sent += 1
                LINEAGE_EVENTS.labels("sent").inc()
            self._take()
        return sent, refused


def _load_held(uow: UnitOfWork, job_id: JobId) -> RunOfPipeline | None:
    """A run that has ended; None if the server has forgotten it, or its pipeline is gone."""
    try:
        return _load(uow, uow.jobs.get(job_id))
    except NotFound:
        return None


def _is_committed(uow: UnitOfWork, run: RunOfPipeline) -> bool:
    """Whether the table has the rows of a held run, or later ones: the next run forgets that it was published."""
    checkpoint = find_checkpoint(uow, run.pipeline, run.tables[0])
    return checkpoint is not None and run.job.leased_at is not None and checkpoint.pinned_at >= run.job.leased_at


def _load(uow: UnitOfWork, job: Job) -> RunOfPipeline | None:
    """The run with its tables, its own first; None if the pipeline is gone."""
    try:
        pipeline, tables = read_run_tables(uow, job)
    except (NotFound, Conflict):
        return None
    ordered = sorted(tables, key=lambda table: table.name != job.table)
    return RunOfPipeline(job=job, pipeline=pipeline, tables=ordered)
