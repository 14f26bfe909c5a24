"""Starts the runs that triggers ask for: schedules, commits, and targets of freshness (docs/pipelines.md#triggers)."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from catalog.errors import CatalogError
from catalog.pipelines.graph import sort_by_inputs
from catalog.pipelines.pipeline import Pipeline, PipelineId, PipelineTable
from catalog.pipelines.trigger import NextRun
from catalog.pipelines.versions import parse_inputs
from catalog.ports.store import Database
from server.service.pipelines.runs import add_run
from server.service.pipelines.states import plan_next_runs

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PipelineTriggers:
    """Any server may run it at any time: a table has one active run."""

    database: Database

    def run_once(self) -> int:
        """Queue the runs that are due; returns their number. Pipelines whose runs are started by hand cost nothing."""
        with self.database.reading() as uow:
            pipelines = uow.pipelines.list_triggered()
        return sum(self._run_due(pipeline_id) for pipeline_id in pipelines)

    def _run_due(self, pipeline_id: PipelineId) -> int:
        try:
            with self.database.reading() as uow:
                pipeline = uow.pipelines.get_by_id(pipeline_id)
                tables = {table.name: table for table in uow.pipelines.tables_of([pipeline_id])[pipeline_id]}
                order = sort_by_inputs({name: parse_inputs(table.definition) for name, table in tables.items()})
                planned = plan_next_runs(uow, pipeline, [tables[name] for name in order])
                now = uow.now()
        except CatalogError as error:  # such as a pipeline that somebody drops at this moment
            log.warning("the runs of a pipeline cannot be planned: %s", error.message)
            return 0
        due = [(tables[name], planned[str(name)]) for name in order if str(name) in planned]
        return sum(self._start(pipeline, table, run) for table, run in due if run.at <= now)

    def _start(self, pipeline: Pipeline, table: PipelineTable, run: NextRun) -> bool:
        try:
            with self.database.writing() as uow:
                current = uow.pipelines.get_by_id(pipeline.id)
                add_run(uow, current, uow.pipelines.lock_table(table.id), run.reason, {"full": False})
        except CatalogError as error:  # a user was faster, or has removed the table
            log.info("no run of %s: %s", table.name, error.message)
            return False
        return True
