"""A sensor that records commits of others to tables, such as the inputs of a pipeline, as observations."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dagster import (
    AssetObservation,
    DefaultSensorStatus,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    sensor,
)

from firn.errors import FirnError
from firn.integrations.dagster.assets import table_key
from firn.integrations.dagster.resource import FirnResource
from firn.integrations.drivers import run_steps
from firn.integrations.tables import TableCommit, load_newest_commit

_PATIENCE_SECONDS = 10.0
"""How long the server may be away: Dagster ends an evaluation after a minute, and repeats it anyway."""


def firn_commit_sensor(
    firn: FirnResource,
    tables: Sequence[str],
    *,
    name: str = "firn_commits",
    minimum_interval_seconds: int = 60,
    default_status: DefaultSensorStatus = DefaultSensorStatus.STOPPED,
) -> SensorDefinition:
    """A sensor that records the newest commit to each table, NAMESPACE.TABLE, once. Maintenance is no such commit."""
    keys = {table: table_key(table, catalog=firn.catalog) for table in tables}

    @sensor(name=name, minimum_interval_seconds=minimum_interval_seconds, default_status=default_status)
    def observe(context: SensorEvaluationContext) -> SensorResult:
        seen = read_cursor(context.cursor)
        resolved, observations = firn.resolve(), []
        with resolved.get_client() as client:
            for table, key in keys.items():
                steps = load_newest_commit(resolved.catalog, table, _PATIENCE_SECONDS)
                try:
                    commit = run_steps(steps, client.transport)
                except FirnError as error:  # the other tables are observed, and this one the next time
                    context.log.warning(f"{table}: {error.message}")
                    continue
                if commit is not None and seen.get(table) != commit.snapshot_id:
                    seen[table] = commit.snapshot_id
                    observations.append(AssetObservation(asset_key=key, metadata=_describe(commit)))
        cursor = json.dumps({table: seen[table] for table in keys if table in seen})
        return SensorResult(asset_events=observations, cursor=cursor)

    return observe


def read_cursor(cursor: str | None) -> dict[str, str]:
    """The snapshots that were seen; none for a cursor that this sensor has not written."""
    try:
        seen = json.loads(cursor or "{}")
    except ValueError:
        return {}
    return {str(table): str(snapshot) for table, snapshot in seen.items()} if isinstance(seen, dict) else {}


def _describe(commit: TableCommit) -> dict[str, str | int]:
    values = {
        "snapshot_id": commit.snapshot_id,
        "committed_at": commit.committed_at.isoformat(),
        "engine": commit.engine,
        "principal": commit.principal,
        "added_rows": commit.added_rows,
        "removed_rows": commit.removed_rows,
    }
    return {name: value for name, value in values.items() if isinstance(value, (str, int))}
