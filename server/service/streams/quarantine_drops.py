"""Drops of all rows of a quarantine, which name the snapshot that the user has seen (docs/protocols.md, rule 6.14)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from catalog.errors import CatalogError, Conflict, NotFound, RequirementFailed, Unavailable
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from catalog.names import CatalogName, TableName
from catalog.ports.images import SentFiles, SentRows
from catalog.tables.relation import Relation
from server.service.commit.commit_path import CommitRequest, Committer
from server.service.commit.commit_target import load_metadata
from server.service.streams.quarantines import Quarantines

_NOTHING = SentRows(upserts=())


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineState:
    """The quarantine of a table now: without a snapshot, no record was bad so far."""

    rows: int
    snapshot_id: int | None
    changed_at: datetime | None


@dataclass(frozen=True)
class QuarantineDrops:
    """Counts the rows of quarantines, and deletes them."""

    quarantines: Quarantines
    committer: Committer
    files: SentFiles

    def show(self, catalog: CatalogName, table: TableName) -> QuarantineState:
        """The state of a table's quarantine; raises NoSuchTable."""
        relation = self.quarantines.find(catalog, table)
        return _describe(None if relation is None else current_snapshot(self._load(relation)))

    def drop(self, catalog: CatalogName, table: TableName, *, expected: int) -> QuarantineState:
        """Delete all rows, and return what there was. Older snapshots keep them.

        `expected` is the snapshot that the user has seen. Raises Conflict if the quarantine has changed since, and
        NotFound if there is none.
        """
        relation = self.quarantines.find(catalog, table)
        if relation is None:
            raise NotFound(f"{table} has no quarantine: no record of its log was bad so far")
        metadata = self._load(relation)
        head = current_snapshot(metadata)
        if head is None or head["snapshot-id"] != expected:
            raise _has_changed(table)
        self._commit(catalog, relation, metadata, head, table)
        return _describe(head)

    def _commit(self, catalog: CatalogName, relation: Relation, metadata: Json, head: Json, table: TableName) -> None:
        counts = head.get("summary") or {}
        summary = {
            "operation": "delete",
            **{f"deleted-{name}": counts[f"total-{name}"] for name in _COUNTED if f"total-{name}" in counts},
        }
        now_ms = int(datetime.now(UTC).timestamp() * 1000)
        # As a child of an empty table it inherits no file.
        emptied = {**metadata, "current-snapshot-id": None, "refs": {}}
        written = self.files.append(emptied, _NOTHING, snapshot_id=secrets.randbits(62), now_ms=now_ms, summary=summary)
        snapshot = replace(written, snapshot={**written.snapshot, "parent-snapshot-id": head["snapshot-id"]})
        commit = TableCommit(name=relation.name, requirements=snapshot.requirements(), updates=snapshot.updates())
        try:
            self.committer.commit(CommitRequest(catalog=catalog, changes=[commit], engine="Firn server"))
        except CatalogError as error:  # which an unknown outcome is not: its files stay
            with suppress(Unavailable):
                self.files.discard(written.written)
            if isinstance(error, RequirementFailed):
                raise _has_changed(table) from error
            raise

    def _load(self, relation: Relation) -> Json:
        return load_metadata(self.quarantines.metadata, relation)


_COUNTED = ("records", "data-files", "files-size")


def _describe(head: Mapping[str, Json] | None) -> QuarantineState:
    if head is None:
        return QuarantineState(rows=0, snapshot_id=None, changed_at=None)
    rows = str((head.get("summary") or {}).get("total-records", "0"))
    return QuarantineState(
        rows=int(rows) if rows.isascii() and rows.isdecimal() else 0,
        snapshot_id=int(str(head["snapshot-id"])),
        changed_at=datetime.fromtimestamp(int(str(head["timestamp-ms"])) / 1000, UTC),
    )


def _has_changed(table: TableName) -> Conflict:
    return Conflict(
        f"the quarantine of {table} has changed since you looked", hint="look at its records again, then drop them"
    )
