"""Which files of a plain table changed between two snapshots: what a reader of its changes reads (docs/changes.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from catalog.errors import Conflict, Invalid, NotFound
from catalog.history.lineage import find_ref_or_snapshot, find_snapshot_at
from catalog.iceberg.formats import complete_metadata
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, current_snapshot_id, snapshot_by_id
from catalog.keyed.consumer import PREFIX
from catalog.names import CatalogName, TableName
from catalog.ports.scan import FileChange, ScanFiles
from catalog.ports.store import Database
from catalog.scan.request import ScanRequest
from catalog.scan.scan import Scan
from catalog.tables.relation import Relation, RelationKind
from server.service.commit.commit_target import load_metadata
from server.service.locations.location_rule import build_file_rule
from server.service.planning.planner import find_planned_relation
from server.service.tables.metadata_files import MetadataFiles

BEGINNING = "0"
"""Before the first snapshot, where the table has no rows."""
MOST_FILES = 20_000
"""One answer has at most so many files. It would be 50 MB and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFiles:
    """The files that changed after the snapshot `since`, up to `until`; None where the table has no snapshot."""

    metadata: Json
    since: Json | None
    until: Json | None
    files: Sequence[FileChange]


@dataclass(frozen=True)
class FileChanges:
    """Compares the files of two snapshots of plain tables."""

    database: Database
    metadata: MetadataFiles
    files: ScanFiles

    def plan(self, catalog: CatalogName, table: TableName, since: str, until: str | None) -> PlannedFiles:
        """List the files that a reader of the changes has to read.

        `since` and `until` are ids of snapshots, branches, tags, or times with a zone. `since` may be 0, for all rows
        of `until`, which is by default the current snapshot. Neither has to be an ancestor of the other.

        Raises NoSuchTable, Invalid for a table with a primary key and for text that names nothing, Conflict for a
        snapshot that has expired, and Invalid if too many files changed.
        """
        with self.database.reading() as uow:
            relation = find_planned_relation(uow, catalog, table)
            if relation.kind is RelationKind.KEYED:
                raise Invalid(
                    f"{relation.name} has a primary key: its changes are those of its rows, and not of files",
                    hint="plan them with `changes/plan`; firn.spark.read_changes does it by itself",
                )
            metadata = complete_metadata(load_metadata(self.metadata, relation))
            rule = build_file_rule(uow, self.database, self.metadata.files, relation, metadata)
        first = None if since == BEGINNING else _find(metadata, relation, since)
        last = current_snapshot_id(metadata) if until is None else _find(metadata, relation, until)
        before, after = _scan(metadata, first), _scan(metadata, last)
        changes = list(islice(self.files.changes(before, after, rule), MOST_FILES + 1))
        if len(changes) > MOST_FILES:
            raise Invalid(
                f"more than {MOST_FILES} files of {relation.name} changed between the two",
                hint="read the table as a whole, or changes over a shorter time",
            )
        return PlannedFiles(
            metadata=metadata,
            since=None if first is None else snapshot_by_id(metadata, first),
            until=None if last is None else snapshot_by_id(metadata, last),
            files=changes,
        )


def _scan(metadata: Json, snapshot_id: int | None) -> Scan:
    """A scan of a snapshot, with the columns of now; of None the scan of nothing."""
    scan = Scan.of(
        metadata, ScanRequest(snapshot_id=snapshot_id), schema_id=int(current_schema(metadata).get("schema-id", 0))
    )
    return scan.without_snapshots() if snapshot_id is None else scan


def _find(metadata: Json, relation: Relation, text: str) -> int:
    if text.startswith(PREFIX):
        raise Invalid(
            f"{relation.name} has no primary key: only keyed tables have consumers",
            hint="name a snapshot, and keep the `until` of each answer as the next `since`",
        )
    try:
        snapshot_id = find_ref_or_snapshot(metadata, text)
    except NotFound:
        moment = _read_time(text)
        if moment is None:
            raise _name_left(metadata, relation, text) from None
        snapshot_id = find_snapshot_at(metadata, moment)
    if snapshot_by_id(metadata, snapshot_id) is None:
        raise _name_left(metadata, relation, text)
    return snapshot_id


def _read_time(text: str) -> datetime | None:
    """A time with a zone; None for other text."""
    try:
        moment = datetime.fromisoformat(text)
        return None if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _name_left(metadata: Json, relation: Relation, text: str) -> Invalid | Conflict:
    """The error for text that names no snapshot that is left."""
    if not (text.isascii() and text.isdecimal()):
        return Invalid(
            f"{text[:80]!r} is no snapshot, branch or tag of {relation.name}, and no time with a zone",
            hint="write the id of a snapshot, or a time as 2026-11-21T09:30:00Z",
        )
    oldest = min(metadata.get("snapshots") or (), key=lambda snapshot: snapshot["timestamp-ms"], default=None)
    left = "it has none" if oldest is None else f"the oldest that is left is {oldest['snapshot-id']}"
    return Conflict(
        f"{relation.name} has no snapshot {text[:80]}: it has expired, or never was; {left}",
        hint="read the table as a whole, and go on from there",
    )
