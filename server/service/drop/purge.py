"""Ends dropped tables: the server forgets them and leaves their files, or purges them.

A purge deletes the files that the dropped table's metadata reaches. Its order lets any later run find the rest: data
and delete files, manifests, manifest lists and statistics, older metadata files, and last the metadata file itself.
The purge records each batch after it has deleted it. If the server dies, the next run repeats at most one batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from uuid import UUID

from catalog.errors import CatalogError, CommitUnknown, Conflict, Invalid, NotFound
from catalog.iceberg.json import Json
from catalog.iceberg.reading import unlisted_manifests
from catalog.locations.location_rule import FileRule
from catalog.names import CatalogName, RelationId
from catalog.ports.dropped import ReachableFiles
from catalog.ports.store import Database, UnitOfWork
from catalog.removal.purge import PurgeProgress
from catalog.removal.undrop import Dropped
from catalog.tables.relation import Relation
from firn.protocol.dropped import DroppedKind, DroppedState
from server.service.drop.drop import build_event
from server.service.drop.undrop import DryRunEnds
from server.service.locations.allowed_locations import load_allowed_locations
from server.service.locations.ownership import explain_dropped_not_own
from server.service.tables.metadata_files import MetadataFiles

BATCH = 500
FILES_PER_RUN = 20_000
"""Limits a run, because a server that is stopping waits for the run to end."""
OVERDUE_PER_RUN = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeStatus:
    """Counts of dropped entries, and of files, of one run."""

    forgotten: int = 0
    purged: int = 0
    kept: int = 0
    unfinished: int = 0
    failed: int = 0
    deleted_files: int = 0


@dataclass(frozen=True)
class Purges:
    """Ends dropped tables after their retention. Several servers may run it at any time and any number of times."""

    database: Database
    metadata: MetadataFiles
    files: ReachableFiles

    def activate(self) -> PurgeStatus:
        """Forget overdue entries or start their purge, then continue the purges that have started."""
        status = self._end_overdue(PurgeStatus())
        with self.database.reading() as uow:
            purging = uow.dropped.purging()
        for entry in purging:
            if status.deleted_files >= FILES_PER_RUN:
                return replace(status, unfinished=status.unfinished + 1)
            status = self._resume(entry, status)
        return status

    def purge(self, catalog: CatalogName, entry_id: UUID, *, keep_files: bool = False, dry_run: bool = False) -> None:
        """End an entry now, at a user's request; for a namespace, end all entries that were dropped with it.

        With `keep_files` the server only removes the entry from the list. That also stops a purge: the remaining files
        stay. Raises NotFound for an unknown entry, and Conflict with the reason when the files must stay. A repeated
        request succeeds when the entry is being purged, or was purged.
        """
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            if _was_purged(uow, catalog, entry_id):
                return
            entry = uow.dropped.get(catalog, entry_id)
            members = uow.dropped.within(entry_id) if entry.kind is DroppedKind.NAMESPACE else [entry]
            relations = {member.id: uow.dropped.relations_of(member.id) for member in members}
        properties = {member.id: self._load_properties(relations[member.id]) for member in members}
        with suppress(DryRunEnds), self.database.writing() as uow:
            uow.catalogs.hold_all()
            for member in members:
                if keep_files:
                    uow.dropped.delete(member)
                elif member.state is not DroppedState.PURGING:
                    _begin_purge(uow, member, relations[member.id], properties[member.id])
            if entry.kind is DroppedKind.NAMESPACE:
                uow.dropped.delete(entry)
            if dry_run:
                raise DryRunEnds

    def _end_overdue(self, status: PurgeStatus) -> PurgeStatus:
        with self.database.reading() as uow:
            overdue = uow.dropped.overdue(uow.now(), limit=OVERDUE_PER_RUN)
        for entry in overdue:
            try:
                status = self._end(entry, status)
            except (CatalogError, CommitUnknown):  # the next run starts from the state in the database
                status = replace(status, failed=status.failed + 1)
        return status

    def _end(self, entry: Dropped, status: PurgeStatus) -> PurgeStatus:
        if not entry.purge:
            with self.database.writing() as uow:
                forgotten = uow.dropped.delete(entry)
            return replace(status, forgotten=status.forgotten + forgotten)
        with self.database.reading() as uow:
            relations = uow.dropped.relations_of(entry.id)
        properties = self._load_properties(relations)
        with self.database.writing() as uow:
            uow.catalogs.hold_all()
            reason = _explain_kept(uow, entry, relations, properties)
            if reason is None:
                uow.dropped.begin_purge(entry)
                return status
            if uow.dropped.delete(entry):
                uow.events.add(build_event(entry, "purge", uow.now(), {"files": f"kept: {reason}"}))
        return replace(status, kept=status.kept + 1)

    def _resume(self, entry: Dropped, status: PurgeStatus) -> PurgeStatus:
        """Delete batches until the entry has no more files, or the run has deleted FILES_PER_RUN."""
        with self.database.reading() as uow:
            parts = uow.dropped.relations_of(entry.id)
        relations = [relation for relation in parts if relation.metadata_location is not None]
        at, before = entry.progress, entry.progress.deleted
        try:
            for after, files, locations in self._plan_batches(relations, at):
                files.delete(locations)
                at = after
                if not self._record_progress(entry, at, None):
                    return status  # another server has ended the entry
                if status.deleted_files + at.deleted - before >= FILES_PER_RUN:
                    break
            else:
                self._delete_empty_directories(parts)
                self._finish(entry, at)
                status = replace(status, purged=status.purged + 1)
        except (CatalogError, CommitUnknown) as error:
            message = error.message if isinstance(error, CatalogError) else str(error)
            with suppress(CatalogError, CommitUnknown):
                self._record_progress(entry, at, message)
            status = replace(status, failed=status.failed + 1)
        return replace(status, deleted_files=status.deleted_files + at.deleted - before)

    def _record_progress(self, entry: Dropped, progress: PurgeProgress, error: str | None) -> bool:
        with self.database.writing() as uow:
            return uow.dropped.note(entry.id, progress, error)

    def _delete_empty_directories(self, relations: Sequence[Relation]) -> None:
        """Delete the tables' own directories where no file is left, those of stores before those around them."""
        for relation in sorted(relations, key=lambda part: len(part.location), reverse=True):
            is_own = self._build_rule(relation, relations).select_deletable([f"{relation.location.rstrip('/')}/file"])
            if is_own:
                with suppress(CatalogError):  # an empty directory does no harm
                    self.files.delete_empty_directories(relation.location)

    def _finish(self, entry: Dropped, progress: PurgeProgress) -> None:
        with self.database.writing() as uow:
            if uow.dropped.delete(entry):
                summary = {"deleted-files": str(progress.deleted), "kept-files": str(progress.kept)}
                uow.events.add(build_event(entry, "purge", uow.now(), summary))

    def _plan_batches(
        self, relations: Sequence[Relation], at: PurgeProgress
    ) -> Iterator[tuple[PurgeProgress, ReachableFiles, Sequence[str]]]:
        """Yield each remaining batch: the progress after the batch, the files port that deletes it, and its locations.

        A batch holds only files in the table's own directory, with links resolved. The purge does not even read files
        that the metadata names elsewhere.
        """
        for store in range(at.store, len(relations)):
            at = at if store == at.store else _start_at(at, store=store)
            metadata = self._load_metadata(relations[store])
            if metadata is None:
                continue  # the metadata file goes last: all files that only it reaches are gone
            rule = self._build_rule(relations[store], relations)
            confined = replace(self, files=self.files.confined(rule))
            for stage in range(at.stage, len(_STAGES)):
                at = at if stage == at.stage else _start_at(at, store=store, stage=stage)
                steps = _STAGES[stage](confined, metadata, relations[store])
                for step in range(at.step, len(steps)):
                    files = list(dict.fromkeys(confined.list_files(stage, steps[step])))
                    deletable = rule.select_deletable(files)
                    at = replace(
                        at,
                        step=step + 1,
                        steps=len(steps),
                        deleted=at.deleted + len(deletable),
                        kept=at.kept + len(files) - len(deletable),
                    )
                    yield at, confined.files, deletable

    def _build_rule(self, table: Relation, relations: Sequence[Relation]) -> FileRule:
        """The rule for the files that a purge may delete; `relations` that were dropped together may overlap."""

        def list_other_tables(locations: Collection[str]) -> list[str]:
            with self.database.reading() as uow:
                used = uow.dropped.find_overlaps(locations, [relation.id for relation in relations], in_purge=False)
            return [overlap.location for overlap in used]

        links = self.metadata.files
        with self.database.reading() as uow:
            allowed = load_allowed_locations(uow, links, table.catalog)
        return FileRule(
            table=str(table.name), allowed=allowed, own=[table.location], others=list_other_tables, links=links
        )

    def list_files(self, stage: int, step: Sequence[str]) -> Iterator[str]:
        """The files of one step; in the first stage, the data and delete files that the step's manifests name."""
        if stage > 0:
            yield from step
            return
        for manifest in step:
            with suppress(NotFound, Invalid):  # Invalid: the table may not name it, or it is no manifest
                yield from self.files.files(manifest)

    def list_manifests(self, metadata: Json) -> list[str]:
        """The manifests of all snapshots, each once, in the same order in every run."""
        manifests: set[str] = set()
        for snapshot in metadata.get("snapshots") or ():
            manifests.update(unlisted_manifests(snapshot))
        for manifest_list in _list_manifest_lists(metadata):
            with suppress(NotFound, Invalid):
                manifests.update(self.files.manifests(manifest_list))
        return sorted(manifests)

    def _load_metadata(self, relation: Relation) -> Json | None:
        try:
            return self.metadata.load(relation.metadata_location or "").parsed
        except NotFound:
            return None

    def _load_properties(self, relations: Sequence[Relation]) -> Mapping[RelationId, Mapping[str, str]]:
        tables = [relation for relation in relations if relation.metadata_location is not None]
        return {table.id: (self._load_metadata(table) or {}).get("properties", {}) for table in tables}


def _start_at(at: PurgeProgress, *, store: int, stage: int = 0) -> PurgeProgress:
    return replace(at, store=store, stage=stage, step=0, steps=0)


def _split(locations: Sequence[str]) -> list[Sequence[str]]:
    return [locations[at : at + BATCH] for at in range(0, len(locations), BATCH)]


def _list_manifest_lists(metadata: Json) -> list[str]:
    lists = [snapshot.get("manifest-list") for snapshot in metadata.get("snapshots") or ()]
    return [location for location in lists if location is not None]


def _plan_data_files(purges: Purges, metadata: Json, _relation: Relation) -> list[Sequence[str]]:
    """Data and delete files; each step is one manifest."""
    return [[manifest] for manifest in purges.list_manifests(metadata)]


def _plan_manifests(purges: Purges, metadata: Json, _relation: Relation) -> list[Sequence[str]]:
    return _split(purges.list_manifests(metadata))


def _plan_lists_and_statistics(_purges: Purges, metadata: Json, _relation: Relation) -> list[Sequence[str]]:
    kinds = ("statistics", "partition-statistics")
    statistics = [file["statistics-path"] for kind in kinds for file in metadata.get(kind) or ()]
    return _split([*_list_manifest_lists(metadata), *statistics])


def _plan_older_metadata(_purges: Purges, metadata: Json, relation: Relation) -> list[Sequence[str]]:
    log = [entry["metadata-file"] for entry in metadata.get("metadata-log") or ()]
    return _split([location for location in log if location != relation.metadata_location])


def _plan_metadata(_purges: Purges, _parsed: Json, relation: Relation) -> list[Sequence[str]]:
    return [[relation.metadata_location or ""]]


_STAGES = (_plan_data_files, _plan_manifests, _plan_lists_and_statistics, _plan_older_metadata, _plan_metadata)
"""In this order, because each stage reads files that a later stage deletes."""


def _was_purged(uow: UnitOfWork, catalog: CatalogName, entry_id: UUID) -> bool:
    """Whether the server has deleted the entry's files, at an earlier request or after the retention."""
    with suppress(NotFound):
        uow.dropped.get(catalog, entry_id)
        return False
    newest = uow.events.list(catalog, [RelationId(entry_id)], limit=1).items
    return any(event.operation == "purge" and "deleted-files" in event.summary for event in newest)


def _begin_purge(
    uow: UnitOfWork, entry: Dropped, relations: Sequence[Relation], properties: Mapping[RelationId, Mapping[str, str]]
) -> None:
    reason = _explain_kept(uow, entry, relations, properties)
    if reason is not None:
        raise Conflict(
            f"the server cannot delete the files of {entry.name}: {reason}",
            hint=f"to remove it from the list only: firn table purge {entry.name} --id {entry.id} --keep-files",
        )
    if not uow.dropped.begin_purge(entry):
        raise Conflict(
            f"another request has restored or purged {entry.name}", hint="check it with firn table list --dropped"
        )


def _explain_kept(
    uow: UnitOfWork, entry: Dropped, relations: Sequence[Relation], properties: Mapping[RelationId, Mapping[str, str]]
) -> str | None:
    """The first reason why the entry's files must stay; None when the purge may delete them.

    The caller holds all catalogs, so that no other request can add a relation.
    """
    try:
        uow.catalogs.get(entry.catalog)
    except NotFound:
        return "its catalog is gone"
    return explain_dropped_not_own(uow, relations, properties)
