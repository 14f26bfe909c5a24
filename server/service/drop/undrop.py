"""What was dropped comes back: with its id, history, versions, statistics, stores and its link to Hive.

Nothing was taken apart by the drop, so all that has to be decided is the name, and whether the files are still there:
an engine that purges by itself deletes them a moment after the drop (docs/architecture.md#dropped-tables).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from uuid import UUID

from catalog.errors import AlreadyExists, CatalogError, Conflict, Invalid, NotFound, Unavailable
from catalog.iceberg.json import Json
from catalog.iceberg.reading import unlisted_manifests
from catalog.iceberg.table import current_snapshot
from catalog.locations.location_rule import FileRule, list_own_locations
from catalog.names import CatalogName, RelationId, TableName, decode_namespace, encode_namespace
from catalog.ports.dropped import ReachableFiles
from catalog.ports.page import Page
from catalog.ports.store import Database, UnitOfWork
from catalog.removal.purge import is_own_location
from catalog.removal.undrop import Dropped, DroppedKind, DroppedState
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.locations import list_spellings, normalize_location
from server.service.drop.drop import event_of
from server.service.locations.allowed_locations import load_allowed_locations
from server.service.tables.keyed_tables import check_no_namespace
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.namespaces import ensure_within

MOST_DATA_FILES = 1_000
"""Of a larger table this many, spread evenly, are looked for before it comes back."""
_SHOWN = 3


class FilesState(StrEnum):
    """What a list says of an entry's files, by its metadata file alone."""

    PRESENT = "present"
    GONE = "gone"
    UNKNOWN = "unknown"  # the storage does not answer


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesFound:
    """Which of the files that the current state of a table needs were looked for, and which are not there."""

    checked: int = 0
    of: int = 0
    missing: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Restored:
    """One table, view or keyed table that is back, or would be."""

    id: UUID
    kind: DroppedKind
    name: TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class Undropped:
    """What an undrop did: `left` is what could not come back with its namespace, and why."""

    restored: Sequence[Restored] = ()
    not_restored: Mapping[str, str] = field(default_factory=dict)
    files: FilesFound = FilesFound()


class DryRunEnds(Exception):
    """Roll back what a dry run has tried."""


@dataclass(frozen=True)
class Undrops:
    """Lists what was dropped and brings it back."""

    database: Database
    metadata: MetadataFiles
    files: ReachableFiles

    def list(
        self, catalog: CatalogName, *, name: str | None = None, limit: int, cursor: str | None = None
    ) -> Page[Dropped]:
        """Newest first; NoSuchCatalog."""
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            return uow.dropped.list(catalog, name=name, limit=limit, cursor=cursor)

    def get(self, catalog: CatalogName, entry_id: UUID) -> Dropped:
        """NotFound when it is not listed."""
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            return uow.dropped.get(catalog, entry_id)

    def file_states(self, entries: Sequence[Dropped]) -> Mapping[UUID, FilesState]:
        """Whether each entry's metadata files are there."""
        with self.database.reading() as uow:
            named = {
                entry.id: [one.metadata_location for one in uow.dropped.relations_of(entry.id) if one.metadata_location]
                for entry in entries
            }
        try:
            missing = set(self.files.missing([location for ones in named.values() for location in ones]))
        except (Unavailable, Invalid):
            return dict.fromkeys(named, FilesState.UNKNOWN)
        return {
            entry_id: FilesState.GONE if missing.intersection(ones) else FilesState.PRESENT
            for entry_id, ones in named.items()
        }

    def undrop(
        self, catalog: CatalogName, entry_id: UUID, *, to: TableName | None = None, dry_run: bool = False
    ) -> Undropped:
        """Bring an entry back, under its own name or another; all of a namespace or nothing of it.

        AlreadyExists when the name is taken, Conflict when its files are gone or are being deleted, or when its Hive
        table belongs to another table by now. Asked for again after an answer was lost, it says what it did.
        """
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            back = _already_back(uow, catalog, entry_id)
            if back is not None:
                return back
            entry = uow.dropped.get(catalog, entry_id)
            members = uow.dropped.within(entry_id) if entry.kind is DroppedKind.NAMESPACE else [entry]
            relations = {one.id: uow.dropped.relations_of(one.id) for one in members}
        if entry.kind is DroppedKind.NAMESPACE and to is not None:
            raise Invalid(
                "a namespace comes back under its own name", hint="bring its tables back one by one, with --to"
            )
        found = {one.id: self.look(relations[one.id]) for one in members}
        gone = {one.id: _gone(one, relations[one.id], found[one.id]) for one in members if found[one.id].missing}
        if gone and entry.kind is not DroppedKind.NAMESPACE:
            raise gone[entry.id]
        wanted = [one for one in members if one.id not in gone]
        done = self._brought_back(entry, wanted, to, dry_run=dry_run)
        left = {one.name: gone[one.id].message for one in members if one.id in gone}
        return replace(done, not_restored={**left, **done.not_restored}, files=_sum(found.values()))

    def _brought_back(
        self, entry: Dropped, members: Sequence[Dropped], to: TableName | None, *, dry_run: bool
    ) -> Undropped:
        restored: list[Restored] = []
        left: dict[str, str] = {}
        with suppress(DryRunEnds), self.database.writing() as uow:
            uow.catalogs.hold(entry.catalog)
            for path, properties in entry.namespaces.items():
                ensure_within(uow, entry.catalog, decode_namespace(path), properties)
            for one in members:
                relations = uow.dropped.take_back(one)
                if relations is not None:
                    restored.append(_put_back(uow, one, relations, to or one.table_name))
                elif one.id == entry.id:
                    raise _refused(uow, one)
                else:
                    left[one.name] = "its files are being deleted"
            if entry.kind is DroppedKind.NAMESPACE and not left:
                uow.dropped.forget(entry)
            if dry_run:
                raise DryRunEnds
        return Undropped(restored=restored, not_restored=left)

    def look(self, relations: Sequence[Relation]) -> FilesFound:
        """Look for what the current state needs: metadata, manifest list, manifests, and data files of a large table
        as a sample. Of a table linked to Hive only Firn's own files: sync puts right what Hive has changed.
        """
        return _sum([self._look(one) for one in relations if one.metadata_location is not None])

    def _look(self, relation: Relation) -> FilesFound:
        location = relation.metadata_location or ""
        if self.files.missing([location]):
            return FilesFound(checked=1, of=1, missing=[location])
        metadata = self.metadata.load(location).parsed
        head = None if relation.kind is RelationKind.VIEW else current_snapshot(metadata)
        if head is None:
            return FilesFound(checked=1, of=1)
        rule = self._rule(relation, metadata)
        files = self.files.confined(rule)
        listed = _admitted(rule, [] if head.get("manifest-list") is None else [head["manifest-list"]])
        if missing := files.missing(listed):
            return FilesFound(checked=2, of=2, missing=missing)
        manifests = [one for name in listed for one in files.manifests(name)] + unlisted_manifests(head)
        manifests = _admitted(rule, manifests)
        if missing := files.missing(manifests):
            return FilesFound(checked=2 + len(manifests), of=2 + len(manifests), missing=missing)
        own = normalize_location(relation.location)
        named = dict.fromkeys(file for manifest in manifests for file in files.files(manifest))
        data = [file for file in named if relation.hive_name is None or is_own_location(file, own)]
        some = _admitted(rule, data[:: len(data) // MOST_DATA_FILES + 1])
        besides = 2 + len(manifests)
        return FilesFound(checked=besides + len(some), of=besides + len(data), missing=files.missing(some))

    def _rule(self, relation: Relation, metadata: Json) -> FileRule:
        """What a dropped table may name: whether other files exist is told to nobody who brings it back."""
        own = [] if relation.owner_id is None else [relation.owner_id]

        def others(wanted: Collection[str]) -> list[str]:
            with self.database.reading() as uow:
                return [one.location for one in uow.dropped.find_overlaps(wanted, [relation.id, *own])]

        links = self.metadata.files
        with self.database.reading() as uow:
            allowed = load_allowed_locations(uow, links, relation.catalog)
        places = [*list_own_locations(metadata), *relation.former_locations]
        return FileRule(table=str(relation.name), allowed=allowed, own=places, others=others, links=links)


def _admitted(rule: FileRule, locations: Sequence[str]) -> list[str]:
    refused = rule.refused(locations)
    return [one for one in locations if one not in refused]


def _sum(found: Iterable[FilesFound]) -> FilesFound:
    parts = list(found)
    return FilesFound(
        checked=sum(one.checked for one in parts),
        of=sum(one.of for one in parts),
        missing=[location for one in parts for location in one.missing],
    )


def _already_back(uow: UnitOfWork, catalog: CatalogName, entry_id: UUID) -> Undropped | None:
    """The answer to a request that was applied before."""
    try:
        uow.dropped.get(catalog, entry_id)
    except NotFound:
        with suppress(CatalogError):
            relation = uow.relations.get(RelationId(entry_id))
            if relation.catalog == catalog:
                return Undropped(restored=[Restored(entry_id, DroppedKind(relation.kind), relation.name)])
    return None


def _put_back(uow: UnitOfWork, entry: Dropped, relations: Sequence[Relation], name: TableName) -> Restored:
    _check_hive(uow, entry, relations)
    _check_alone(uow, entry, relations)
    remembered: Mapping[str, Mapping[str, str]] = {}
    if entry.parent_id is not None:
        with suppress(NotFound):
            remembered = uow.dropped.get(entry.catalog, entry.parent_id).namespaces
    properties = remembered.get(encode_namespace(name.namespace), {})
    ensure_within(uow, entry.catalog, name.namespace, properties)
    taken = uow.relations.holder(entry.catalog, name)
    if taken is not None:
        raise AlreadyExists(
            f"{name} cannot come back: there is another {taken.kind} of that name",
            hint=f"give it another name: firn table undrop {entry.name} --id {entry.id} --to NAMESPACE.NAME",
        )
    if entry.kind is DroppedKind.KEYED:
        check_no_namespace(uow, entry.catalog, name)
    for one in relations:
        store_name = TableName(name.as_namespace, one.name.name)
        uow.relations.add(replace(one, name=store_name if one.kind.is_store else name))
    uow.stats.look_again([one.id for one in relations], uow.now())
    uow.events.add(replace(event_of(entry, "undrop", uow.now()), table=name))
    return Restored(entry.id, entry.kind, name)


def _check_hive(uow: UnitOfWork, entry: Dropped, relations: Sequence[Relation]) -> None:
    """It comes back linked, and the next sync brings what Hive did meanwhile; two tables would be synced twice."""
    for one in relations:
        if one.hive_name is None:
            continue
        other = next(
            (link for link in uow.relations.linked_to_hive(entry.catalog) if link.hive_name == one.hive_name), None
        )
        if other is not None:
            raise Conflict(
                f"{entry.name} cannot come back: its Hive table {one.hive_name} was upgraded again, to {other.name}",
                hint=f"drop {other.name} first, or leave this one dropped",
            )


def _check_alone(uow: UnitOfWork, entry: Dropped, relations: Sequence[Relation]) -> None:
    """Its metadata may have been registered again meanwhile: two tables over one location delete each other's files."""
    ids = {one.id for one in relations}
    around = [
        one for part in relations for one in uow.relations.over(list_spellings(part.location)) if one.id not in ids
    ]
    if around:
        raise Conflict(
            f"{entry.name} cannot come back: another table is over its location",
            hint="it was probably registered again: drop that table first, or leave this one dropped",
        )


def _refused(uow: UnitOfWork, entry: Dropped) -> CatalogError:
    """Why an entry that was listed a moment ago cannot be taken back."""
    try:
        now = uow.dropped.get(entry.catalog, entry.id)
    except NotFound as error:
        return error
    if now.state is DroppedState.PURGING:
        return Conflict(f"{entry.name} cannot come back: its files are being deleted")
    return Conflict(f"{entry.name} was brought back and dropped again meanwhile", hint="try again")


def _gone(entry: Dropped, relations: Sequence[Relation], found: FilesFound) -> Conflict:
    shown = ", ".join(found.missing[:_SHOWN])
    metadata = next((one.metadata_location for one in relations if one.metadata_location), None)
    can_register = metadata is not None and metadata not in found.missing and entry.kind is DroppedKind.TABLE
    anyway = f"; to have what is left, register the table by its metadata file {metadata}" if can_register else ""
    return Conflict(
        f"{entry.name} cannot come back, its files are gone: {len(found.missing)} of {found.checked} that were looked"
        f" for are missing, such as {shown}",
        hint=f"an engine has probably purged it: firn table purge {entry.name} --id {entry.id} --keep-files"
        f" takes it off the list{anyway}",
    )
