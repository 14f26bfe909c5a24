"""The metrics of pipelines' tables. They come from the database, so every server exposes the same values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from server.prometheus import Figures
from server.service.pipelines.measurements import TableMeasurements
from server.service.pipelines.states import TABLE_STATES

_TABLE = ("catalog", "table")
_Values = dict[tuple[str, ...], float]


def build_pipeline_figures(measured: Sequence[TableMeasurements], at: datetime) -> Sequence[Figures]:
    """Measure the tables by state; and of each one how far it is behind, its target, and its last run."""
    return [_count_states(measured), *_build_freshness(measured, at), *_build_runs(measured)]


def _count_states(measured: Sequence[TableMeasurements]) -> Figures:
    states: _Values = {(state,): 0.0 for state in TABLE_STATES}
    for table in measured:
        states[table.state,] = states.get((table.state,), 0.0) + 1
    return Figures("firn_pipeline_tables", "Tables of pipelines by state.", ("state",), states)


def _build_freshness(measured: Sequence[TableMeasurements], at: datetime) -> Sequence[Figures]:
    lags, targets, behind = (_Values() for _ in range(3))
    for table in measured:
        key = (table.catalog, table.table)
        if table.inputs_behind is not None:
            behind[key] = table.inputs_behind
            since = table.behind_since
            lags[key] = 0.0 if since is None else max(0.0, (at - since).total_seconds())
        if table.target_seconds is not None:
            targets[key] = table.target_seconds
    lag = "How long ago the oldest commit to an input was that the table does not show."
    return [
        Figures("firn_pipeline_lag_seconds", lag, _TABLE, lags),
        Figures("firn_pipeline_target_seconds", "How old that commit may be: fresh_within.", _TABLE, targets),
        Figures("firn_pipeline_inputs_behind", "Inputs with commits that the table does not show.", _TABLE, behind),
    ]


def _build_runs(measured: Sequence[TableMeasurements]) -> Sequence[Figures]:
    failed, seconds, rows = (_Values() for _ in range(3))
    for table in measured:
        key = (table.catalog, table.table)
        if table.is_failing is not None:
            failed[key] = float(table.is_failing)
        if table.run_seconds is not None:
            seconds[key] = table.run_seconds
        for kind, count in table.rows.items():
            rows[*key, kind] = float(count)
    return [
        Figures("firn_pipeline_failed", "Whether the last run of the table that has ended failed.", _TABLE, failed),
        Figures("firn_pipeline_run_seconds", "How long that run took.", _TABLE, seconds),
        Figures("firn_pipeline_run_rows", "Rows of the last run, if it succeeded.", (*_TABLE, "kind"), rows),
    ]
