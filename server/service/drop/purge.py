"""The end of what was dropped: forgotten with its files left alone, or purged.

A purge deletes what the dropped table's metadata reaches, in an order that lets any next run find the rest: data and
delete files, manifests, manifest lists and statistics, older metadata files, and the metadata file itself at last.
Each batch is noted once it is deleted; killed anywhere, the next run deletes at most one batch again.
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
from catalog.removal.undrop import Dropped, DroppedKind, DroppedState
from catalog.tables.relation import Relation
from server.service.drop.drop import event_of
from server.service.drop.undrop import DryRunEnds
from server.service.locations.allowed_locations import load_allowed_locations
from server.service.locations.ownership import explain_dropped_not_own
from server.service.tables.metadata_files import MetadataFiles

BATCH = 500
FILES_PER_RUN = 20_000
"""A server that is asked to stop waits for the run, not for the whole table."""
OVERDUE_PER_RUN = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeStatus:
    """What one activation did."""

    forgotten: int = 0
    purged: int = 0
    kept: int = 0
    unfinished: int = 0
    failed: int = 0
    deleted_files: int = 0


@dataclass(frozen=True)
class Purges:
    """Ends what is kept no longer; safe to run at any time, any number of times, by several servers."""

    database: Database
    metadata: MetadataFiles
    files: ReachableFiles

    def activate(self) -> PurgeStatus:
        """Forget or begin to purge what is overdue, then go on with the purges that have begun."""
        status = self._end_overdue(PurgeStatus())
        with self.database.reading() as uow:
            begun = uow.dropped.purging()
        for entry in begun:
            if status.deleted_files >= FILES_PER_RUN:
                return replace(status, unfinished=status.unfinished + 1)
            status = self._go_on(entry, status)
        return status

    def purge(self, catalog: CatalogName, entry_id: UUID, *, keep_files: bool = False, dry_run: bool = False) -> None:
        """End an entry now because somebody has asked for it; of a namespace, everything that was dropped with it.

        NotFound when it is not listed, Conflict with the reason when its files must stay. With `keep_files` it is taken
        off the list, also when a purge of it has begun: what is left of its files stays. What is being purged already,
        or has been, is no failure: the same request again, after a lost answer, finds it so.
        """
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            if _was_purged(uow, catalog, entry_id):
                return
            entry = uow.dropped.get(catalog, entry_id)
            members = uow.dropped.within(entry_id) if entry.kind is DroppedKind.NAMESPACE else [entry]
            relations = {one.id: uow.dropped.relations_of(one.id) for one in members}
        properties = {one.id: self._properties(relations[one.id]) for one in members}
        with suppress(DryRunEnds), self.database.writing() as uow:
            uow.catalogs.hold_all()
            for one in members:
                if keep_files:
                    uow.dropped.forget(one)
                    continue
                if one.state is DroppedState.PURGING:
                    continue
                kept = _why_kept(uow, one, relations[one.id], properties[one.id])
                if kept is not None:
                    raise Conflict(
                        f"the files of {one.name} cannot be deleted: {kept}",
                        hint=f"firn table purge {one.name} --id {one.id} --keep-files takes it off the list",
                    )
                if not uow.dropped.begin_purge(one):
                    raise Conflict(f"{one.name} was brought back or purged meanwhile", hint="look at the list again")
            if entry.kind is DroppedKind.NAMESPACE:
                uow.dropped.forget(entry)
            if dry_run:
                raise DryRunEnds

    def _end_overdue(self, status: PurgeStatus) -> PurgeStatus:
        with self.database.reading() as uow:
            overdue = uow.dropped.overdue(uow.now(), limit=OVERDUE_PER_RUN)
        for entry in overdue:
            try:
                status = self._end(entry, status)
            except (CatalogError, CommitUnknown):  # the next run goes by what it finds
                status = replace(status, failed=status.failed + 1)
        return status

    def _end(self, entry: Dropped, status: PurgeStatus) -> PurgeStatus:
        if not entry.purge:
            with self.database.writing() as uow:
                forgotten = uow.dropped.forget(entry)
            return replace(status, forgotten=status.forgotten + forgotten)
        with self.database.reading() as uow:
            relations = uow.dropped.relations_of(entry.id)
        properties = self._properties(relations)
        with self.database.writing() as uow:
            uow.catalogs.hold_all()
            kept = _why_kept(uow, entry, relations, properties)
            if kept is None:
                uow.dropped.begin_purge(entry)
                return status
            if uow.dropped.forget(entry):
                uow.events.add(event_of(entry, "purge", uow.now(), {"files": f"kept: {kept}"}))
        return replace(status, kept=status.kept + 1)

    def _go_on(self, entry: Dropped, status: PurgeStatus) -> PurgeStatus:
        """Delete batches until the entry or this run's share ends."""
        with self.database.reading() as uow:
            relations = [one for one in uow.dropped.relations_of(entry.id) if one.metadata_location is not None]
        at, before = entry.progress, entry.progress.deleted
        try:
            for after, files, locations in self._batches(relations, at):
                files.delete(locations)
                at = after
                if not self._note(entry, at, None):
                    return status  # another server has ended it
                if status.deleted_files + at.deleted - before >= FILES_PER_RUN:
                    break
            else:
                self._finish(entry, at)
                status = replace(status, purged=status.purged + 1)
        except (CatalogError, CommitUnknown) as error:
            message = error.message if isinstance(error, CatalogError) else str(error)
            with suppress(CatalogError, CommitUnknown):
                self._note(entry, at, message)
            status = replace(status, failed=status.failed + 1)
        return replace(status, deleted_files=status.deleted_files + at.deleted - before)

    def _note(self, entry: Dropped, progress: PurgeProgress, error: str | None) -> bool:
        with self.database.writing() as uow:
            return uow.dropped.note(entry.id, progress, error)

    def _finish(self, entry: Dropped, progress: PurgeProgress) -> None:
        with self.database.writing() as uow:
            if uow.dropped.forget(entry):
                told = {"deleted-files": str(progress.deleted), "kept-files": str(progress.kept)}
                uow.events.add(event_of(entry, "purge", uow.now(), told))

    def _batches(
        self, relations: Sequence[Relation], at: PurgeProgress
    ) -> Iterator[tuple[PurgeProgress, ReachableFiles, Sequence[str]]]:
        """What is still to be deleted, batch by batch, and by whom, with the progress that is true once it is deleted.

        Only files in the table's own directory, links followed; what its metadata names elsewhere is not even read.
        """
        for store in range(at.store, len(relations)):
            at = at if store == at.store else _begun(at, store=store)
            metadata = self._found(relations[store])
            if metadata is None:
                continue  # gone: so is everything that only it led to
            rule = self._rule(relations[store], relations)
            confined = replace(self, files=self.files.confined(rule))
            for stage in range(at.stage, len(_STAGES)):
                at = at if stage == at.stage else _begun(at, store=store, stage=stage)
                steps = _STAGES[stage](confined, metadata, relations[store])
                for step in range(at.step, len(steps)):
                    named = list(dict.fromkeys(confined.named(stage, steps[step])))
                    mine = rule.deletable(named)
                    at = replace(
                        at,
                        step=step + 1,
                        steps=len(steps),
                        deleted=at.deleted + len(mine),
                        kept=at.kept + len(named) - len(mine),
                    )
                    yield at, confined.files, mine

    def _rule(self, table: Relation, relations: Sequence[Relation]) -> FileRule:
        """What may be deleted of a dropped table: what was dropped with it is no other table's."""

        def others(wanted: Collection[str]) -> list[str]:
            with self.database.reading() as uow:
                found = uow.dropped.find_overlaps(wanted, [one.id for one in relations], in_purge=False)
            return [one.location for one in found]

        links = self.metadata.files
        with self.database.reading() as uow:
            allowed = load_allowed_locations(uow, links, table.catalog)
        return FileRule(table=str(table.name), allowed=allowed, own=[table.location], others=others, links=links)

    def named(self, stage: int, step: Sequence[str]) -> Iterator[str]:
        """The files of one step: in the first stage those that its manifests name."""
        if stage > 0:
            yield from step
            return
        for manifest in step:
            with suppress(NotFound, Invalid):  # Invalid: not the table's to name, or no file
                yield from self.files.files(manifest)

    def manifests_of(self, metadata: Json) -> list[str]:
        """Of all snapshots, each once, in an order that the next run finds again."""
        found: set[str] = set()
        for snapshot in metadata.get("snapshots") or ():
            found.update(unlisted_manifests(snapshot))
        for manifest_list in _lists(metadata):
            with suppress(NotFound, Invalid):
                found.update(self.files.manifests(manifest_list))
        return sorted(found)

    def _found(self, relation: Relation) -> Json | None:
        try:
            return self.metadata.load(relation.metadata_location or "").parsed
        except NotFound:
            return None

    def _properties(self, relations: Sequence[Relation]) -> Mapping[RelationId, Mapping[str, str]]:
        found = {one.id: self._found(one) for one in relations if one.metadata_location is not None}
        return {relation_id: (metadata or {}).get("properties", {}) for relation_id, metadata in found.items()}


def _begun(at: PurgeProgress, *, store: int, stage: int = 0) -> PurgeProgress:
    return replace(at, store=store, stage=stage, step=0, steps=0)


def _chunks(locations: Sequence[str]) -> list[Sequence[str]]:
    return [locations[at : at + BATCH] for at in range(0, len(locations), BATCH)]


def _lists(metadata: Json) -> list[str]:
    return [one["manifest-list"] for one in metadata.get("snapshots") or () if one.get("manifest-list") is not None]


def _one_by_one(purges: Purges, metadata: Json, _relation: Relation) -> list[Sequence[str]]:
    """Data and delete files, a manifest at a time."""
    return [[manifest] for manifest in purges.manifests_of(metadata)]


def _manifests(purges: Purges, metadata: Json, _relation: Relation) -> list[Sequence[str]]:
    return _chunks(purges.manifests_of(metadata))


def _lists_and_statistics(_purges: Purges, metadata: Json, _relation: Relation) -> list[Sequence[str]]:
    kinds = ("statistics", "partition-statistics")
    statistics = [one["statistics-path"] for kind in kinds for one in metadata.get(kind) or ()]
    return _chunks([*_lists(metadata), *statistics])


def _older_metadata(_purges: Purges, metadata: Json, relation: Relation) -> list[Sequence[str]]:
    log = [one["metadata-file"] for one in metadata.get("metadata-log") or ()]
    return _chunks([one for one in log if one != relation.metadata_location])


def _metadata(_purges: Purges, _parsed: Json, relation: Relation) -> list[Sequence[str]]:
    return [[relation.metadata_location or ""]]


_STAGES = (_one_by_one, _manifests, _lists_and_statistics, _older_metadata, _metadata)
"""In this order: each needs what the later ones delete."""


def _was_purged(uow: UnitOfWork, catalog: CatalogName, entry_id: UUID) -> bool:
    """Whether its files were deleted, by an earlier request or because its time was over."""
    with suppress(NotFound):
        uow.dropped.get(catalog, entry_id)
        return False
    last = uow.events.list(catalog, [RelationId(entry_id)], limit=1).items
    return any(one.operation == "purge" and "deleted-files" in one.summary for one in last)


def _why_kept(
    uow: UnitOfWork, entry: Dropped, relations: Sequence[Relation], properties: Mapping[RelationId, Mapping[str, str]]
) -> str | None:
    """The first reason to delete nothing of it; while nobody can add a relation."""
    try:
        uow.catalogs.get(entry.catalog)
    except NotFound:
        return "its catalog is gone"
    return explain_dropped_not_own(uow, relations, properties)
