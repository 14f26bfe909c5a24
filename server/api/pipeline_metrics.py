"""The metrics of pipelines' tables. They come from the database, so every server exposes the same values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from catalog.jobs.job import JobStatus
from server.prometheus import Figures
from server.service.pipelines.states import TABLE_STATES, TableView

MOST_PIPELINES = 500
"""The pipelines that a scrape measures, the first ones by name: each table has a dozen values."""
_TABLE = ("catalog", "table")
_ROWS = ("written", "unchanged", "deleted")
_Values = dict[tuple[str, ...], float]


def build_pipeline_figures(views: Sequence[TableView], at: datetime) -> Sequence[Figures]:
    """Measure the tables by state; and of each one how far it is behind, its target, and its last run."""
    states: _Values = {(state,): 0.0 for state in TABLE_STATES}
    lags, targets, behind, failed, seconds, rows = (_Values() for _ in range(6))
    for view in views:
        key = (str(view.table.catalog), str(view.table.name))
        states[view.state,] += 1
        if view.behind is not None:
            behind[key] = view.behind
            lags[key] = 0.0 if view.behind_since is None else max(0.0, (at - view.behind_since).total_seconds())
        fresh_within = view.table.definition.trigger.fresh_within_seconds
        if fresh_within is not None:
            targets[key] = fresh_within
        _add_last_run(view, key, failed, seconds, rows)
    lag = "How long ago the oldest commit to an input was that the table does not show."
    return [
        Figures("firn_pipeline_tables", "Tables of pipelines by state.", ("state",), states),
        Figures("firn_pipeline_lag_seconds", lag, _TABLE, lags),
        Figures("firn_pipeline_target_seconds", "How old that commit may be: fresh_within.", _TABLE, targets),
        Figures("firn_pipeline_inputs_behind", "Inputs with commits that the table does not show.", _TABLE, behind),
        Figures("firn_pipeline_failed", "Whether the last run of the table failed.", _TABLE, failed),
        Figures("firn_pipeline_run_seconds", "How long the last run took.", _TABLE, seconds),
        Figures("firn_pipeline_run_rows", "Rows of the last run.", (*_TABLE, "kind"), rows),
    ]


def _add_last_run(view: TableView, key: tuple[str, str], failed: _Values, seconds: _Values, rows: _Values) -> None:
    run = view.last_run
    if run is None:
        return
    failed[key] = float(run.status is JobStatus.FAILED)
    if run.leased_at is not None and run.ended_at is not None:
        seconds[key] = (run.ended_at - run.leased_at).total_seconds()
    if run.status is JobStatus.SUCCEEDED:
        for kind in _ROWS:
            count = run.result.get(kind)
            if isinstance(count, int):  # an optimizer has reported it
                rows[*key, kind] = float(count)
