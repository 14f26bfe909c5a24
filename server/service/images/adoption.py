"""The server's part of a merge by adoption: it commits the layer that an optimizer has built.

The optimizer writes data files and delete files, the server their manifests. Then the commit takes the way of every
commit of a job, with its lease, its fence and the validation of merges. A repeated request gets the same answer
(docs/protocols.md, rule 5.6).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from catalog.errors import CatalogError, CommitUnknown, Conflict, Invalid
from catalog.files.data_file import AddSnapshot
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot_id, snapshot_by_id
from catalog.jobs.job import Job, JobKind
from catalog.jobs.leases import Lease, check_lease
from catalog.keyed.adoption import find_data_directory
from catalog.keyed.spec import JOB_ID, MERGED_BASE, MERGED_CHANGE, MERGED_FROM, MERGED_THROUGH, KeyedTable
from catalog.locations.location_rule import FileRule
from catalog.names import RelationId
from catalog.ports.files import TableFiles
from catalog.ports.images import AdoptionParts, ImageFiles
from catalog.ports.store import Database
from catalog.tables.relation import Relation
from firn.protocol.locations import lies_in, normalize_location
from firn.protocol.tasks.image import Layer
from firn.protocol.tasks.merge import AdoptRequest
from server.service.commit.commit_path import CommitRequest, Committer
from server.service.commit.commit_target import load_metadata
from server.service.images.pair import build_image_rule
from server.service.tables.keyed_tables import KeyedTables
from server.service.tables.metadata_files import MetadataFiles

Summary = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stores:
    """A running merge job, and both stores of its table."""

    job: Job
    keyed: KeyedTable
    base_store: Relation
    change_store: Relation
    base: Json
    change: Json
    rule: FileRule
    now_ms: int


@dataclass(frozen=True)
class Adoptions:
    """Commits for merge jobs; any number of threads and servers may use it at once."""

    database: Database
    metadata: MetadataFiles
    tables: KeyedTables
    committer: Committer
    images: ImageFiles
    files: TableFiles

    def adopt(self, lease: Lease, request: AdoptRequest) -> Summary:
        """Commit the layer to base, with the watermark; returns the snapshot's summary.

        LeaseLost when the lease has ended. Conflict when base has moved since the layer was built: nothing is
        committed then. CommitUnknown when nobody knows.
        """
        stores = self._load(lease)
        if (recorded := self._find_recorded(stores.job, stores.keyed.base_id, stores.base)) is not None:
            return recorded
        if current_snapshot_id(stores.base) != request.base_snapshot_id:
            raise Conflict("base has changed since the merge read it", hint="the next merge reads it again")
        _check_layer(stores.base, request.layer)
        parts = AdoptionParts(
            base=stores.base,
            change=stores.change,
            layer=request.layer,
            snapshot_id=secrets.randbits(62) + 1,
            now_ms=stores.now_ms,
            summary=_sign(stores.job, request),
        )
        return self._commit(lease, stores, stores.base_store, self.images.write_adoption(parts, stores.rule))

    def clean(self, lease: Lease, files: Sequence[str]) -> Summary:
        """Take merged files out of the change store's current snapshot; returns the summary of the new one.

        Invalid for a file with changes that base lacks. For other errors see `adopt`.
        """
        stores = self._load(lease)
        if (recorded := self._find_recorded(stores.job, stores.keyed.change_id, stores.change)) is not None:
            return recorded
        merged = {
            file.location
            for file in self.files.live_files(stores.change)
            if file.sequence_number <= stores.keyed.watermark
        }
        if pending := set(files) - merged:
            raise Invalid(f"{min(pending)} is no merged file of the change store")
        snapshot = self.files.write_snapshot(
            stores.change,
            (),
            files,
            snapshot_id=secrets.randbits(62) + 1,
            now_ms=stores.now_ms,
            summary_extra={JOB_ID: str(stores.job.id)},
        )
        return self._commit(lease, stores, stores.change_store, snapshot)

    def _load(self, lease: Lease) -> _Stores:
        with self.database.reading() as uow:
            job = check_lease(uow.jobs.get(lease.job_id), lease)
            if job.kind is not JobKind.MERGE:
                raise Invalid(f"job {job.id} is no merge")
            pin = self.tables.pin_relation(uow, uow.relations.get(job.relation_id))
            return _Stores(
                job=job,
                keyed=pin.keyed,
                base_store=pin.base_store,
                change_store=pin.change_store,
                base=load_metadata(self.metadata, pin.base_store),
                change=load_metadata(self.metadata, pin.change_store),
                rule=build_image_rule(uow, self.database, self.metadata.files, pin),
                now_ms=int(uow.now().timestamp() * 1000),
            )

    def _find_recorded(self, job: Job, store_id: RelationId, metadata: Json) -> Summary | None:
        """The summary of the snapshot that the job has committed to the store before; None if it has not."""
        with self.database.reading() as uow:
            recorded = uow.jobs.recorded_commits(job.id, store_id)
        if not recorded:
            return None
        snapshot = snapshot_by_id(metadata, recorded[-1].snapshot_id or -1)
        return {} if snapshot is None else dict(snapshot["summary"])

    def _commit(self, lease: Lease, stores: _Stores, store: Relation, snapshot: AddSnapshot) -> Summary:
        change = TableCommit(name=store.name, requirements=snapshot.requirements(), updates=snapshot.updates())
        request = CommitRequest(catalog=store.catalog, changes=[change], lease=lease, engine="firn merge")
        try:
            self.committer.commit(request)
        except CommitUnknown:
            raise
        except CatalogError:
            for location in snapshot.written:
                self.files.delete(location)
            # The same request may have been faster: refused, the optimizer would delete files that base names.
            recorded = self._find_recorded(stores.job, store.id, load_metadata(self.metadata, store))
            if recorded is None:
                raise
            return recorded
        return dict(snapshot.snapshot["summary"])


def _sign(job: Job, request: AdoptRequest) -> dict[str, str]:
    """The part of the summary that the validation of merges reads."""
    return {
        MERGED_FROM: str(request.watermark),
        MERGED_THROUGH: str(request.through),
        MERGED_BASE: str(request.base_snapshot_id or "none"),
        MERGED_CHANGE: str(request.change_snapshot_id or "none"),
        JOB_ID: str(job.id),
    }


def _check_layer(base: Json, layer: Layer) -> None:
    """Invalid unless all files of the layer lie in base's own directory for data files, and each rewritten file
    replaces one.
    """
    if kept := {pack.like for pack in layer.rewritten} - {*layer.removed_files}:
        raise Invalid(f"{min(kept)} was written again, and is not removed")
    directory = find_data_directory(base)
    packs = {pack.location for pack in (*layer.packs, *layer.rewritten)}
    for location in sorted(packs | {hidden.location for hidden in layer.hidden}):
        if not lies_in(normalize_location(location), normalize_location(directory)):
            raise Invalid(f"{location} does not lie in {directory}")
