"""Jobs and leases beside a plain model of docs/protocols.md#jobs-and-leases: two tables, two optimizers, a clock
that jumps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from catalog.errors import Conflict, LeaseLost
from catalog.history.commit import Outcome, TableCommit
from catalog.jobs.job import SEVERAL_COMMITS, JobId, JobKind, JobStatus
from catalog.jobs.leases import Lease
from catalog.names import TableName
from catalog.ports.store import Database, UnitOfWork
from catalog.ports.work import JobFilter
from tests.factories import LAKE
from tests.server.lake import Lake, a_lake, appended, snapshot_ids, snapshot_of
from tests.server.wrappers import DatabaseWrapper

TABLES = [TableName(("db",), "a"), TableName(("db",), "b")]
LASTS = 60.0
MAX_ATTEMPTS = 5
JUMPS = [7, 35, 61]
"""No sum of them is a lease's time exactly: what the clock moves between the jumps never decides."""
PICK = st.integers(0, 20)
P, R, C, S, F, U, X = JobStatus
KINDS = [JobKind.REWRITE, JobKind.EXPIRE]
"""One that may commit several times, and one that may not."""


@dataclass
class JumpingDatabase(DatabaseWrapper):
    """A database whose clock stands still, but for a millisecond at each look, and can be set forward."""

    ahead: float = 0.0
    began: datetime | None = None
    looks: int = 0

    @contextmanager
    def reading(self) -> Iterator[UnitOfWork]:
        with self.real.reading() as uow:
            yield self._ahead(uow)

    @contextmanager
    def writing(self) -> Iterator[UnitOfWork]:
        with self.real.writing() as uow:
            yield self._ahead(uow)

    def _ahead(self, uow: UnitOfWork) -> UnitOfWork:
        self.began = began = self.began or uow.now()

        def now() -> datetime:
            self.looks += 1
            return began + timedelta(seconds=self.ahead, milliseconds=self.looks)

        uow.now = now  # type: ignore[method-assign]
        return uow


@dataclass
class ModelJob:
    """What the rules say of one job. `lease` is the current one, `recorded` the snapshots that it has committed."""

    table: TableName
    kind: JobKind
    status: JobStatus = P
    attempt: int = 0
    lease: Lease | None = None
    owner: str | None = None
    until: float = 0.0
    recorded: list[int] = field(default_factory=list)

    @property
    def committed(self) -> bool:
        return bool(self.recorded)

    @property
    def may_commit(self) -> bool:
        return self.status is C and (self.kind in SEVERAL_COMMITS or not self.committed)

    def end_lease(self, status: JobStatus) -> None:
        self.status, self.lease = status, None

    def settle(self) -> None:
        if self.committed:
            self.end_lease(S)
        else:
            self.end_lease(F if self.attempt >= MAX_ATTEMPTS else P)


@dataclass
class Issued:
    """A lease as its optimizer remembers it, for ever, and what it has sent with it."""

    lease: Lease
    job_id: JobId
    applied: list[TableCommit] = field(default_factory=list)


class LeaseHistory(RuleBasedStateMachine):
    """One server; what it says and stores after every step is what the model says."""

    def __init__(self, database: Database, directory: Path) -> None:
        super().__init__()
        self.clock = JumpingDatabase(database)
        self.lake: Lake = a_lake(self.clock, directory)
        for name in TABLES:
            self.lake.create(name)
        self.optimizers = [self.lake.optimizer(), self.lake.optimizer()]
        self.jobs: dict[JobId, ModelJob] = {}
        self.issued: list[Issued] = []
        self.acknowledged: dict[TableName, list[int]] = {name: [] for name in TABLES}

    def active(self, table: TableName) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.table == table and job.status in (P, R, C, U)]

    def fenced(self, issued: Issued, act: Callable[[], object], *, holds: bool) -> bool:
        """Whether the lease was good; it has to be exactly when the model says so."""
        if holds:
            act()
        else:
            with pytest.raises(LeaseLost):
                act()
        return holds

    def current(self, issued: Issued) -> ModelJob | None:
        job = self.jobs[issued.job_id]
        return job if job.lease == issued.lease else None

    # --- what people and planners do

    @rule(table=st.sampled_from(TABLES), kind=st.sampled_from(KINDS))
    def plan(self, table: TableName, kind: JobKind) -> None:
        if self.active(table):
            with pytest.raises(Conflict):
                self.lake.services.planner.run_now(LAKE, table, kind, {})
        else:
            job = self.lake.services.planner.run_now(LAKE, table, kind, {})
            self.jobs[job.id] = ModelJob(table, kind)

    @precondition(lambda self: self.jobs)
    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        job_id, job = list(self.jobs.items())[-1 - pick % len(self.jobs)]
        if job.status is X:  # given up already, perhaps by this very request
            assert self.lake.services.jobs.cancel(job_id).status is X
        elif job.committed or job.status in (S, F):
            with pytest.raises(Conflict):
                self.lake.services.jobs.cancel(job_id)
        else:
            self.lake.services.jobs.cancel(job_id)
            job.end_lease(X)

    # --- what optimizers do, also with leases that ended long ago

    @rule(which=st.integers(0, 1))
    def take(self, which: int) -> None:
        leased_job = self.lake.services.jobs.take(self.optimizers[which], KINDS)
        pending = [(job_id, job) for job_id, job in self.jobs.items() if job.status is P]
        if not pending:
            assert leased_job is None
            return
        job_id, job = pending[0]
        assert leased_job is not None
        assert leased_job.job.id == job_id
        job.status, job.attempt, job.lease = R, job.attempt + 1, leased_job.lease
        job.owner, job.until = self.optimizers[which], self.clock.ahead + LASTS
        self.issued.append(Issued(leased_job.lease, job_id))

    @precondition(lambda self: self.issued)
    @rule(pick=PICK)
    def beat(self, pick: int) -> None:
        issued = self.issued[-1 - pick % len(self.issued)]
        job = self.current(issued)
        self.fenced(issued, lambda: self.lake.services.jobs.beat(issued.lease, {}, []), holds=job is not None)
        if job is not None:
            job.until = self.clock.ahead + LASTS

    @precondition(lambda self: self.issued)
    @rule(pick=PICK)
    def committing(self, pick: int) -> None:
        issued = self.issued[-1 - pick % len(self.issued)]
        job = self.current(issued)
        self.fenced(issued, lambda: self.lake.services.jobs.begin_commit(issued.lease), holds=job is not None)
        if job is not None:
            job.status, job.until = C, self.clock.ahead + LASTS

    @precondition(lambda self: self.issued)
    @rule(pick=PICK)
    def commit(self, pick: int) -> None:
        """One commit for each job and table, or as many as its kind may, under the current lease, after saying so."""
        issued = self.issued[-1 - pick % len(self.issued)]
        job, table = self.current(issued), self.jobs[issued.job_id].table
        change = appended(table, self.lake.metadata(table), operation="replace")
        holds = job is not None and job.may_commit
        self.fenced(issued, lambda: self.lake.commit(change, lease=issued.lease), holds=holds)
        if holds and job is not None:
            job.recorded.append(snapshot_of(change))
            issued.applied.append(change)
            self.acknowledged[table].append(snapshot_of(change))

    @precondition(lambda self: any(issued.applied for issued in self.issued))
    @rule(pick=PICK, which=PICK)
    def repeat_a_commit(self, pick: int, which: int = 0) -> None:
        """A lost answer: whatever has become of the lease, the repetition is answered and applied no second time."""
        applied = [issued for issued in self.issued if issued.applied]
        issued = applied[pick % len(applied)]
        self.lake.commit(issued.applied[which % len(issued.applied)], lease=issued.lease)

    @precondition(lambda self: self.issued)
    @rule(pick=PICK, outcome=st.sampled_from([None, *Outcome]))
    def report(self, pick: int, outcome: Outcome | None) -> None:
        issued = self.issued[-1 - pick % len(self.issued)]
        job = self.current(issued)
        self.fenced(
            issued,
            lambda: self.lake.services.jobs.report(issued.lease, outcome, error=None, result={}),
            holds=job is not None,
        )
        if job is None:
            return
        if job.committed or outcome is None:
            job.end_lease(S)
        else:
            job.end_lease(U if outcome is Outcome.UNKNOWN and job.status is C else F)

    @rule(which=st.integers(0, 1))
    def leave(self, which: int) -> None:
        """What has begun to commit is not given to another one by the word of a leaving process."""
        for job in self.jobs.values():
            if job.owner == self.optimizers[which] and job.status is R:
                job.end_lease(P)
        self.lake.services.optimizers.unregister(self.optimizers[which])
        self.optimizers[which] = self.lake.optimizer()

    @rule(which=st.integers(0, 1), table=st.sampled_from(TABLES), kind=st.sampled_from(KINDS), steps=st.integers(0, 5))
    def work(self, which: int, table: TableName, kind: JobKind, steps: int) -> None:
        """The usual way, left after some steps: drawn one by one, too few of them meet."""
        self.plan(table, kind)
        before = len(self.issued)
        self.take(which)
        if len(self.issued) == before:
            return
        for step in (self.committing, self.commit, self.repeat_a_commit, self.commit, self.commit)[:steps]:
            step(0 if step != self.repeat_a_commit else -1)

    # --- what time and the server do

    @rule(seconds=st.sampled_from(JUMPS))
    def jump(self, seconds: int) -> None:
        self.clock.ahead += seconds

    @rule(seconds=st.sampled_from([0, 35, 61, 61]))
    def reap(self, seconds: int) -> None:
        """Reaping comes after a silence often enough to find the lapsed leases of jobs that have committed."""
        self.jump(seconds)
        self.lake.services.jobs.reap()
        for job in self.jobs.values():
            if job.status is U or (job.lease is not None and job.until < self.clock.ahead):
                job.settle()

    # --- what holds after every step

    @invariant()
    def the_server_says_what_the_model_says(self) -> None:
        with self.lake.services.database.reading() as uow:
            stored = {job_id: uow.jobs.get(job_id) for job_id in self.jobs}
            recorded = {job_id: uow.jobs.recorded_commits(job_id, job.relation_id) for job_id, job in stored.items()}
        for job_id, job in self.jobs.items():
            token = None if job.lease is None else job.lease.token
            stored_job = stored[job_id]
            assert (stored_job.status, stored_job.attempt, stored_job.token) == (job.status, job.attempt, token)
            assert (stored_job.committed_by is not None) is job.committed
            assert stored_job.committed_snapshot_id == (job.recorded[0] if job.committed else None)
            assert [commit.snapshot_id for commit in recorded[job_id]] == job.recorded
            assert [commit.number for commit in recorded[job_id]] == list(range(1, len(job.recorded) + 1))

    @invariant()
    def a_table_has_one_active_job_and_one_lease_at_most(self) -> None:
        with self.lake.services.database.reading() as uow:
            listed = uow.jobs.list(
                JobFilter(statuses=[status for status in JobStatus if status.is_active]), limit=100
            ).items
        assert len({job.relation_id for job in listed}) == len(listed)
        assert all((job.token is not None) is job.status.is_leased for job in listed)

    @invariant()
    def every_acknowledged_commit_is_in_its_table_once(self) -> None:
        for name, acknowledged in self.acknowledged.items():
            assert snapshot_ids(self.lake.metadata(name)) == acknowledged
