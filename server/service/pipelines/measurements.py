"""Measurements of pipelines' tables for monitoring, in the smallest form: servers keep them between scrapes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock

from catalog.jobs.job import JobStatus
from server.service.pipelines.definitions import DefinedPipeline, PipelineDefinitions
from server.service.pipelines.states import PipelineStates, TableView

MOST_PIPELINES = 10_000
"""The pipelines that are measured, the first ones by name."""
ROW_KINDS = ("written", "unchanged", "deleted")
_AT_ONCE = 1_000
"""The pipelines that are read together: each chunk takes a fixed number of statements."""
_REST = 20.0
"""Measurements are kept for this many times as long as they took, so they take at most 5 % of a processor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMeasurements:
    """The measurements of one table. None where nothing is known, as of a table that is not built."""

    catalog: str
    table: str
    state: str
    inputs_behind: int | None
    behind_since: datetime | None
    target_seconds: float | None
    """How old `behind_since` may be: `fresh_within`."""
    is_failing: bool | None
    """Whether the last run that has ended failed."""
    run_seconds: float | None
    rows: Mapping[str, int]
    """The rows of the last run by kind, if it succeeded."""


@dataclass
class PipelineMeasurements:
    """Measures the tables of all pipelines."""

    definitions: PipelineDefinitions
    states: PipelineStates
    clock: Callable[[], float] = time.monotonic
    _measured: Sequence[TableMeasurements] = ()
    _until: float | None = None
    _lock: Lock = field(default_factory=Lock)

    def load(self) -> Sequence[TableMeasurements]:
        """The measurements, which may be as old as 20 times the time that they took. A second caller waits."""
        with self._lock:
            began = self.clock()
            if self._until is None or began >= self._until:
                self._measured = [
                    _measure(view) for defined in self._list() for of in self.states.describe(defined) for view in of
                ]
                ended = self.clock()
                self._until = ended + _REST * (ended - began)
            return self._measured

    def _list(self) -> Iterator[Sequence[DefinedPipeline]]:
        cursor: str | None = None
        for _ in range(0, MOST_PIPELINES, _AT_ONCE):
            page = self.definitions.list(limit=_AT_ONCE, cursor=cursor)
            yield page.items
            cursor = page.next_cursor
            if cursor is None:
                return


def _measure(view: TableView) -> TableMeasurements:
    run, last, table = view.last_run, view.last_ended, view.table
    duration = None if last is None else last.duration
    counts = run.result if run is not None and run.status is JobStatus.SUCCEEDED else {}
    return TableMeasurements(
        catalog=str(table.catalog),
        table=str(table.name),
        state=view.state,
        inputs_behind=view.behind,
        behind_since=view.behind_since,
        target_seconds=table.definition.trigger.fresh_within_seconds,
        is_failing=None if last is None else last.status is JobStatus.FAILED,
        run_seconds=None if duration is None else duration.total_seconds(),
        rows={kind: counts[kind] for kind in ROW_KINDS if isinstance(counts.get(kind), int)},  # an optimizer's report
    )
