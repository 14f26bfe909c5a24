"""A scan: a request applied to a table at one moment, so that its meaning never changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from catalog.errors import Invalid
from catalog.iceberg.formats import complete_metadata
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, current_snapshot, schema_by_id, snapshot_by_id
from catalog.iceberg.schema import index
from catalog.scan.expression import Expression, bind_expression, find_field
from catalog.scan.request import ScanRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The snapshots to read, the filter over their columns, and the columns with requested statistics."""

    metadata: Json
    snapshots: tuple[Json, ...]
    """One for a scan at a moment, none for an empty table; for an incremental scan the appends that it reads."""
    incremental: bool
    schema_id: int
    filter: Expression
    stats: frozenset[int]
    min_rows: int | None

    @classmethod
    def of(cls, metadata: Json, request: ScanRequest, *, schema_id: int | None = None) -> Scan:
        """The scan of this request; Invalid if the table has no such snapshot or column.

        `schema_id` is that of an already resolved scan: tables change, plans do not.
        """
        metadata = complete_metadata(metadata)
        between = request.between
        snapshots = (
            _find_snapshots(metadata, request.snapshot_id) if between is None else _find_appends(metadata, *between)
        )
        if schema_id is None:
            schema_id = _choose_schema_id(metadata, request, snapshots)
        fields = index(schema_by_id(metadata, schema_id))
        stats = set()
        for name in request.stats_fields:
            field = find_field(fields, name, case_sensitive=request.case_sensitive)
            if field is None:
                raise Invalid(f"Cannot find field {name!r} of stats-fields in the table's schema")
            stats.add(field.id)
        return cls(
            metadata=metadata,
            snapshots=snapshots,
            incremental=between is not None,
            schema_id=schema_id,
            filter=bind_expression(request.filter, fields, case_sensitive=request.case_sensitive),
            stats=frozenset(stats),
            min_rows=request.min_rows,
        )

    def without_snapshots(self) -> Scan:
        """The scan of the same table before its first snapshot."""
        return replace(self, snapshots=())

    @property
    def appended_ids(self) -> frozenset[int]:
        """The snapshots whose appended files an incremental scan reads."""
        return frozenset(snapshot["snapshot-id"] for snapshot in self.snapshots)


def _find_snapshots(metadata: Json, snapshot_id: int | None) -> tuple[Json, ...]:
    snapshot = current_snapshot(metadata) if snapshot_id is None else _load_snapshot(metadata, snapshot_id)
    return () if snapshot is None else (snapshot,)


def _load_snapshot(metadata: Json, snapshot_id: int) -> Json:
    snapshot = snapshot_by_id(metadata, snapshot_id)
    if snapshot is None:
        raise Invalid(f"Cannot find snapshot with ID {snapshot_id}", hint="it may have been expired")
    return snapshot


def _find_appends(metadata: Json, start: int, end: int) -> tuple[Json, ...]:
    """The appends after the start (exclusive) up to the end (inclusive), newest first.

    The start itself may have expired, but none of the snapshots between: otherwise rows would silently be missing.
    """
    snapshots: list[Json] = []
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.get("snapshots") or []}
    above: int | None = _load_snapshot(metadata, end)["snapshot-id"]
    while above is not None and above != start:
        snapshot = by_id.get(above)
        if snapshot is None:
            break
        snapshots.append(snapshot)
        above = snapshot.get("parent-snapshot-id")
    if above != start:
        raise Invalid(f"Starting snapshot (exclusive) {start} is not a parent ancestor of end snapshot {end}")
    return tuple(appended for appended in snapshots if (appended.get("summary") or {}).get("operation") == "append")


def _choose_schema_id(metadata: Json, request: ScanRequest, snapshots: tuple[Json, ...]) -> int:
    current = int(current_schema(metadata).get("schema-id", 0))
    if not request.use_snapshot_schema:
        return current
    last = request.end_snapshot_id
    snapshot = _load_snapshot(metadata, last) if last is not None else next(iter(snapshots), {})
    # The oldest snapshots do not name their schema.
    return int(snapshot.get("schema-id", current))
