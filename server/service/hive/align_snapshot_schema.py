"""A plain table is read as of one snapshot while engines commit to it: that has to be under the columns it has now."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from catalog.errors import CatalogError, CommitUnknown
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from catalog.ports.files import TableFiles
from catalog.ports.store import Database
from server.service.commit.commit_path import CommitRequest, Committer
from server.service.commit.commit_target import load_metadata
from server.service.hive.link_state import LinkedTable
from server.service.tables.metadata_files import MetadataFiles


@dataclass(frozen=True)
class SnapshotSchemaAligner:
    """Brings a table's head up to its columns; safe to be interrupted anywhere."""

    database: Database
    metadata: MetadataFiles
    committer: Committer
    files: TableFiles

    def readable(self, linked: LinkedTable, metadata: Json) -> Json:
        """The table with a head that has its present columns: where it has not, another one with the same files.

        As of a snapshot, engines read a table with the columns of that time, but files that came before a column may
        hold values of it. RequirementFailed when others were faster. A keyed table's stores are read otherwise.
        """
        head = current_snapshot(metadata)
        if linked.is_keyed or (head is not None and head.get("schema-id") == metadata["current-schema-id"]):
            return metadata
        self._add_head(linked, metadata)
        with self.database.reading() as uow:
            relation = uow.relations.get(linked.target.id)
        return self.readable(linked, load_metadata(self.metadata, relation))  # columns may have changed again

    def _add_head(self, linked: LinkedTable, metadata: Json) -> None:
        with self.database.reading() as uow:
            now_ms = int(uow.now().timestamp() * 1000)
        snapshot = self.files.write_snapshot(
            metadata,
            (),
            (),
            snapshot_id=secrets.randbits(62) + 1,
            now_ms=now_ms,
            summary_extra={"operation": "replace", "firn.reason": "to be read with the columns that it has now"},
        )
        change = TableCommit(name=linked.target.name, requirements=snapshot.requirements(), updates=snapshot.updates())
        request = CommitRequest(
            catalog=linked.relation.catalog, changes=[change], engine="firn publish", follows_hive=True
        )
        try:
            self.committer.commit(request)
        except CommitUnknown:
            raise
        except CatalogError:
            for location in snapshot.written:
                self.files.delete(location)
            raise
