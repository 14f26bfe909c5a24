"""Starts the runs that triggers ask for: schedules, commits, and targets of freshness (docs/pipelines.md#triggers).

Each pipeline with a trigger has a time at which its next runs are to be planned, so a tick looks only at pipelines that
need it: those whose time has come, and those of which a table has a commit since the last tick. A pipeline that nobody
needs to look at is looked at every 10 to 15 minutes nevertheless, so that nothing stays unseen for ever.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from catalog.errors import CatalogError
from catalog.keyed.spec import BASE, CHANGE
from catalog.names import CatalogName, TableName
from catalog.pipelines.backfill import BackfillId
from catalog.pipelines.pipeline import Pipeline, PipelineId, PipelineTable
from catalog.pipelines.trigger import NextRun
from catalog.ports.store import Database, UnitOfWork
from server.service.pipelines.beside_jobs import start_beside_jobs
from server.service.pipelines.runs import add_run, lock_subject
from server.service.pipelines.sets import find_subjects
from server.service.pipelines.states import (
    MAX_FAILURES,
    States,
    has_triggers,
    list_failures,
    plan_next_runs,
    sort_tables,
)
from server.service.pipelines.stopped_backfills import fail_stopped_backfills
from server.service.pipelines.table_facts import read_states

log = logging.getLogger(__name__)

_AT_ONCE = 200
"""The pipelines that one tick plans at most; the others come with the next one."""
_MOST_CHANGED = 5_000
"""Tables with commits since the last tick; beyond that all pipelines are planned."""
_UNSETTLED = timedelta(minutes=1)
"""How long a transaction may take: a commit may become visible after later ones that have higher numbers."""
_SOON = timedelta(seconds=10)
"""When a pipeline is planned again that has an active run, or that could not be planned."""
_LONGEST = timedelta(minutes=10)


@dataclass(frozen=True)
class PipelineTriggers:
    """Any server may run it at any time: a table has one active run."""

    database: Database
    _seen: deque[tuple[datetime, int]] = field(default_factory=deque)
    """The last commit's number at the times of the ticks of the last minute, oldest first."""

    def run_once(self) -> int:
        """Queue the runs that are due; returns their number."""
        self._request_plans()
        with self.database.reading() as uow:
            now = uow.now()
            due = uow.pipelines.list_due(now, limit=_AT_ONCE)
            if not due:
                return 0
            defined = _load(uow, due)
            states = read_states(uow, defined.values())
        started, until = 0, dict[PipelineId, datetime | None]()
        for pipeline_id in due:
            pipeline, tables = defined.get(pipeline_id, (None, []))
            if pipeline is not None:
                started += self._run_due(pipeline, tables, states, now, until)
        with self.database.writing() as uow:
            uow.pipelines.postpone(due, until)
        return started

    def _request_plans(self) -> None:
        """Plan the pipelines of which a table has commits since the last tick; all of them after a start."""
        with self.database.reading() as uow:
            now, last = uow.now(), uow.events.last_id()
            while len(self._seen) > 1 and self._seen[1][0] < now - _UNSETTLED:
                self._seen.popleft()
            changed = uow.pipeline_facts.list_changed(self._seen[0][1], limit=_MOST_CHANGED) if self._seen else None
            readers = None if changed is None else uow.pipeline_facts.find_readers(_name_tables(changed))
        if readers is None or readers:
            with self.database.writing() as uow:
                uow.pipelines.request_plans(readers, now)
        self._seen.append((now, last))

    def _run_due(
        self,
        pipeline: Pipeline,
        tables: Sequence[PipelineTable],
        states: States,
        now: datetime,
        until: dict[PipelineId, datetime | None],
    ) -> int:
        """Start the runs of a pipeline that are due, and note in `until` when to plan it again."""
        try:
            planned = plan_next_runs(pipeline, tables, states, now)
        except CatalogError as error:
            log.warning("the runs of pipeline %s cannot be planned: %s", pipeline.name, error.message)
            until[pipeline.id] = now + _SOON
            return 0
        until[pipeline.id] = _plan_again(pipeline.id, tables, states, planned, now)
        subjects = set(find_subjects(tables).values())
        due = [
            (table, planned[str(table.name)]) for table in tables if table.id in subjects and str(table.name) in planned
        ]
        runs = sum(self._start(pipeline, table, run) for table, run in due if run.at <= now)
        for table in tables:
            if states[table.id].has_chunks and len(list_failures(states[table.id])) >= MAX_FAILURES:
                self._fail_backfills(pipeline, table)
        beside = [(table, backfill_id) for table in tables for backfill_id in states[table.id].beside]
        return runs + sum(self._start_beside(pipeline, table, backfill_id) for table, backfill_id in beside)

    def _fail_backfills(self, pipeline: Pipeline, table: PipelineTable) -> None:
        try:
            with self.database.writing() as uow:
                failed = fail_stopped_backfills(uow, uow.pipelines.get_by_id(pipeline.id), table)
        except CatalogError as error:  # somebody has removed the table
            log.info("the backfills of %s stay active: %s", table.name, error.message)
            return
        if failed:
            log.warning("%d backfills of %s have failed, because its runs fail", failed, table.name)

    def _start_beside(self, pipeline: Pipeline, table: PipelineTable, backfill_id: BackfillId) -> int:
        try:
            with self.database.writing() as uow:
                current = uow.pipelines.get_by_id(pipeline.id)
                return start_beside_jobs(uow, current, table, backfill_id)
        except CatalogError as error:  # somebody has removed the table
            log.info("no jobs of backfill %s: %s", backfill_id, error.message)
            return 0

    def _start(self, pipeline: Pipeline, table: PipelineTable, run: NextRun) -> bool:
        try:
            with self.database.writing() as uow:
                current = uow.pipelines.get_by_id(pipeline.id)
                add_run(uow, current, lock_subject(uow, table), run.reason, {"full": False})
        except CatalogError as error:  # a user was faster, or has removed the table
            log.info("no run of %s: %s", table.name, error.message)
            return False
        return True


def _load(
    uow: UnitOfWork, pipeline_ids: Mapping[PipelineId, datetime]
) -> dict[PipelineId, tuple[Pipeline, list[PipelineTable]]]:
    """The pipelines that exist, with their tables, each after those that it reads."""
    tables = uow.pipelines.tables_of(list(pipeline_ids))
    pipelines = uow.pipelines.get_many(list(pipeline_ids))
    return {key: (pipeline, sort_tables(tables[key])) for key, pipeline in pipelines.items()}


def _plan_again(
    pipeline_id: PipelineId,
    tables: Sequence[PipelineTable],
    states: States,
    planned: Mapping[str, NextRun],
    now: datetime,
) -> datetime | None:
    """When to plan the pipeline again, unless a commit to one of its tables comes first; None without triggers."""
    if not has_triggers(tables, states):
        return None
    if any(states[table.id].beside or any(run.status.is_active for run in states[table.id].runs) for table in tables):
        return now + _SOON
    latest = now + _LONGEST + timedelta(seconds=pipeline_id.int % 300)  # spread over five minutes
    next_run = min((run.at for run in planned.values()), default=latest)
    return min(latest, max(next_run, now + _SOON)) if next_run <= now else min(latest, next_run)


def _name_tables(changed: Sequence[tuple[CatalogName, TableName]]) -> set[tuple[CatalogName, TableName]]:
    """The tables with these commits, and the keyed tables of which they may be stores."""
    owners = [
        (catalog, TableName(name.namespace[:-1], name.namespace[-1]))
        for catalog, name in changed
        if name.name in (BASE, CHANGE) and len(name.namespace) > 1
    ]
    return {*changed, *owners}
