"""A scan: a request applied to a table as it is at one moment, so that it means the same whenever it is looked at."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.errors import Invalid
from catalog.iceberg.formats import complete_metadata
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, current_snapshot, schema_by_id, snapshot_by_id
from catalog.iceberg.schema import index
from catalog.scan.expression import Expression, bind_expression, find_field
from catalog.scan.request import ScanRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The snapshots to read, the filter over their columns, and the columns whose statistics are wanted."""

    metadata: Json
    snapshots: tuple[Json, ...]
    """One for a scan at a moment, none for an empty table; for an incremental scan those whose appends it reads."""
    incremental: bool
    schema_id: int
    filter: Expression
    stats: frozenset[int]
    min_rows: int | None

    @classmethod
    def of(cls, metadata: Json, request: ScanRequest, *, schema_id: int | None = None) -> Scan:
        """The scan of this request; Invalid when the table has no such snapshot or column.

        `schema_id` is that of a scan which has been resolved before: tables go on, plans do not.
        """
        metadata = complete_metadata(metadata)
        between = request.between
        snapshots = _snapshot(metadata, request.snapshot_id) if between is None else _appended(metadata, *between)
        if schema_id is None:
            schema_id = _schema_id(metadata, request, snapshots)
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

    @property
    def appended_ids(self) -> frozenset[int]:
        """The snapshots whose appended files an incremental scan reads."""
        return frozenset(snapshot["snapshot-id"] for snapshot in self.snapshots)


def _snapshot(metadata: Json, snapshot_id: int | None) -> tuple[Json, ...]:
    found = current_snapshot(metadata) if snapshot_id is None else _known(metadata, snapshot_id)
    return () if found is None else (found,)


def _known(metadata: Json, snapshot_id: int) -> Json:
    found = snapshot_by_id(metadata, snapshot_id)
    if found is None:
        raise Invalid(f"Cannot find snapshot with ID {snapshot_id}", hint="it may have been expired")
    return found


def _appended(metadata: Json, start: int, end: int) -> tuple[Json, ...]:
    """The appends after the start (exclusive) up to the end (inclusive), newest first.

    The start itself may have been expired, what is between may not: something would be left out without a word.
    """
    found: list[Json] = []
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.get("snapshots") or []}
    above: int | None = _known(metadata, end)["snapshot-id"]
    while above is not None and above != start:
        snapshot = by_id.get(above)
        if snapshot is None:
            break
        found.append(snapshot)
        above = snapshot.get("parent-snapshot-id")
    if above != start:
        raise Invalid(f"Starting snapshot (exclusive) {start} is not a parent ancestor of end snapshot {end}")
    return tuple(one for one in found if (one.get("summary") or {}).get("operation") == "append")


def _schema_id(metadata: Json, request: ScanRequest, snapshots: tuple[Json, ...]) -> int:
    current = int(current_schema(metadata).get("schema-id", 0))
    if not request.use_snapshot_schema:
        return current
    last = request.end_snapshot_id
    snapshot = _known(metadata, last) if last is not None else next(iter(snapshots), {})
    # The oldest snapshots do not say which schema they were written with.
    return int(snapshot.get("schema-id", current))
