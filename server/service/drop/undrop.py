"""Restores dropped tables with their id, history, versions, statistics, stores and link to Hive.

A drop keeps all of these, so undrop checks only two things: that the name is free, and that the files still exist.
An engine that purges on its own deletes them right after the drop (docs/architecture.md#dropped-tables).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
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
from catalog.removal.undrop import Dropped
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.dropped import DroppedKind, DroppedState, FilesState
from firn.protocol.locations import list_spellings, normalize_location
from server.service.drop.drop import build_event
from server.service.locations.allowed_locations import load_allowed_locations
from server.service.tables.keyed_tables import check_no_namespace
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.namespaces import ensure_within

MOST_DATA_FILES = 1_000
"""Undrop checks at most about this many data files of a table, spread evenly over all of them."""
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesCheck:
    """Result of checking the files that a table's current snapshot needs: how many were checked, and which are gone."""

    checked: int = 0
    of: int = 0
    missing: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Restored:
    """A table, view or keyed table that an undrop has restored, or would restore in a dry run."""

    id: UUID
    kind: DroppedKind
    name: TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class Undropped:
    """Result of an undrop; `not_restored` maps each table that stays dropped to the reason."""

    restored: Sequence[Restored] = ()
    not_restored: Mapping[str, str] = field(default_factory=dict)
    files: FilesCheck = FilesCheck()


class DryRunEnds(Exception):
    """Rolls back the transaction of a dry run."""


@dataclass(frozen=True)
class Undrops:
    """Lists dropped entries and restores them."""

    database: Database
    metadata: MetadataFiles
    files: ReachableFiles

    def list(
        self, catalog: CatalogName, *, name: str | None = None, limit: int, cursor: str | None = None
    ) -> Page[Dropped]:
        """One page of dropped entries, newest first; raises NoSuchCatalog."""
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            return uow.dropped.list(catalog, name=name, limit=limit, cursor=cursor)

    def get(self, catalog: CatalogName, entry_id: UUID) -> Dropped:
        """One dropped entry; raises NotFound when the list does not hold it."""
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            return uow.dropped.get(catalog, entry_id)

    def file_states(self, entries: Sequence[Dropped]) -> Mapping[UUID, FilesState]:
        """Whether the metadata files of each entry exist, by the id of the entry."""
        with self.database.reading() as uow:
            relations = {entry.id: uow.dropped.relations_of(entry.id) for entry in entries}
        metadata_files = {
            entry_id: [part.metadata_location for part in parts if part.metadata_location]
            for entry_id, parts in relations.items()
        }
        try:
            missing = set(self.files.missing([file for files in metadata_files.values() for file in files]))
        except (Unavailable, Invalid):
            return dict.fromkeys(metadata_files, FilesState.UNKNOWN)
        return {
            entry_id: FilesState.GONE if missing.intersection(files) else FilesState.PRESENT
            for entry_id, files in metadata_files.items()
        }

    def undrop(
        self, catalog: CatalogName, entry_id: UUID, *, to: TableName | None = None, dry_run: bool = False
    ) -> Undropped:
        """Restore an entry under its own name or under `to`; for a namespace, restore all its tables that have files.

        Raises AlreadyExists when another relation has the name. Raises Conflict when the server is deleting the files,
        when they are gone, or when the Hive table is linked to another table. A repeated request returns the result of
        the first one.
        """
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            restored = _find_restored(uow, catalog, entry_id)
            if restored is not None:
                return restored
            entry = uow.dropped.get(catalog, entry_id)
            members = uow.dropped.within(entry_id) if entry.kind is DroppedKind.NAMESPACE else [entry]
            relations = {member.id: uow.dropped.relations_of(member.id) for member in members}
        if entry.kind is DroppedKind.NAMESPACE and to is not None:
            raise Invalid(
                "undrop restores a namespace under its own name only", hint="restore its tables one by one with --to"
            )
        checks = {member.id: self.check_files(relations[member.id]) for member in members}
        errors = {
            member.id: _build_missing_files_error(member, relations[member.id], checks[member.id])
            for member in members
            if checks[member.id].missing
        }
        if errors and entry.kind is not DroppedKind.NAMESPACE:
            raise errors[entry.id]
        done = self._bring_back(entry, [member for member in members if member.id not in errors], to, dry_run=dry_run)
        not_restored = {member.name: errors[member.id].message for member in members if member.id in errors}
        return replace(done, not_restored={**not_restored, **done.not_restored}, files=_add_up(checks.values()))

    def _bring_back(
        self, entry: Dropped, members: Sequence[Dropped], to: TableName | None, *, dry_run: bool
    ) -> Undropped:
        restored: list[Restored] = []
        not_restored: dict[str, str] = {}
        with suppress(DryRunEnds), self.database.writing() as uow:
            uow.catalogs.hold(entry.catalog)
            for path, properties in entry.namespaces.items():
                ensure_within(uow, entry.catalog, decode_namespace(path), properties)
            for member in members:
                relations = uow.dropped.take_back(member)
                if relations is not None:
                    restored.append(_restore(uow, member, relations, to or member.table_name))
                elif member.id == entry.id:
                    raise _explain_refusal(uow, member)
                else:
                    not_restored[member.name] = "its files are being deleted"
            if entry.kind is DroppedKind.NAMESPACE and not not_restored:
                uow.dropped.delete(entry)
            if dry_run:
                raise DryRunEnds
        return Undropped(restored=restored, not_restored=not_restored)

    def check_files(self, relations: Sequence[Relation]) -> FilesCheck:
        """Check that the files of the current snapshots exist: metadata, manifest list, manifests and data files.

        The check samples the data files of a large table. It skips the Hive-owned files of a linked table, because the
        next sync applies whatever Hive has changed.
        """
        return _add_up(
            [self._check_relation_files(relation) for relation in relations if relation.metadata_location is not None]
        )

    def _check_relation_files(self, relation: Relation) -> FilesCheck:
        location = relation.metadata_location or ""
        if self.files.missing([location]):
            return FilesCheck(checked=1, of=1, missing=[location])
        metadata = self.metadata.load(location).parsed
        head = None if relation.kind is RelationKind.VIEW else current_snapshot(metadata)
        if head is None:
            return FilesCheck(checked=1, of=1)
        rule = self._build_rule(relation, metadata)
        files = self.files.confined(rule)
        manifest_lists = _filter_allowed(rule, [] if head.get("manifest-list") is None else [head["manifest-list"]])
        if missing := files.missing(manifest_lists):
            return FilesCheck(checked=2, of=2, missing=missing)
        manifests = [manifest for name in manifest_lists for manifest in files.manifests(name)] + unlisted_manifests(
            head
        )
        manifests = _filter_allowed(rule, manifests)
        if missing := files.missing(manifests):
            return FilesCheck(checked=2 + len(manifests), of=2 + len(manifests), missing=missing)
        own = normalize_location(relation.location)
        unique = dict.fromkeys(file for manifest in manifests for file in files.files(manifest))
        data = [file for file in unique if relation.hive_name is None or is_own_location(file, own)]
        sample = _filter_allowed(rule, data[:: len(data) // MOST_DATA_FILES + 1])
        metadata_files = 2 + len(manifests)
        return FilesCheck(
            checked=metadata_files + len(sample), of=metadata_files + len(data), missing=files.missing(sample)
        )

    def _build_rule(self, relation: Relation, metadata: Json) -> FileRule:
        """The rule for the files that a dropped table may name. Undrop reveals nothing about other files."""
        own = [] if relation.owner_id is None else [relation.owner_id]

        def list_other_tables(locations: Collection[str]) -> list[str]:
            with self.database.reading() as uow:
                return [used.location for used in uow.dropped.find_overlaps(locations, [relation.id, *own])]

        links = self.metadata.files
        with self.database.reading() as uow:
            allowed = load_allowed_locations(uow, links, relation.catalog)
        own_locations = [*list_own_locations(metadata), *relation.former_locations]
        return FileRule(
            table=str(relation.name), allowed=allowed, own=own_locations, others=list_other_tables, links=links
        )


def _filter_allowed(rule: FileRule, locations: Sequence[str]) -> list[str]:
    refused = rule.find_refused(locations)
    return [location for location in locations if location not in refused]


def _add_up(checks: Iterable[FilesCheck]) -> FilesCheck:
    checks = list(checks)
    return FilesCheck(
        checked=sum(check.checked for check in checks),
        of=sum(check.of for check in checks),
        missing=[location for check in checks for location in check.missing],
    )


def _find_restored(uow: UnitOfWork, catalog: CatalogName, entry_id: UUID) -> Undropped | None:
    """The result of the same request, if it was applied before."""
    try:
        uow.dropped.get(catalog, entry_id)
    except NotFound:
        with suppress(CatalogError):
            relation = uow.relations.get(RelationId(entry_id))
            if relation.catalog == catalog:
                return Undropped(restored=[Restored(entry_id, DroppedKind(relation.kind), relation.name)])
    return None


def _restore(uow: UnitOfWork, entry: Dropped, relations: Sequence[Relation], name: TableName) -> Restored:
    _check_hive_table(uow, entry, relations)
    _check_no_neighbour(uow, entry, relations)
    namespaces: Mapping[str, Mapping[str, str]] = {}
    if entry.parent_id is not None:
        with suppress(NotFound):
            namespaces = uow.dropped.get(entry.catalog, entry.parent_id).namespaces
    properties = namespaces.get(encode_namespace(name.namespace), {})
    ensure_within(uow, entry.catalog, name.namespace, properties)
    holder = uow.relations.find_name_holder(entry.catalog, name)
    if holder is not None:
        raise AlreadyExists(
            f"{name} cannot come back: there is another {holder.kind} of that name",
            hint=f"give it another name: firn table undrop {entry.name} --id {entry.id} --to NAMESPACE.NAME",
        )
    if entry.kind is DroppedKind.KEYED:
        check_no_namespace(uow, entry.catalog, name)
    for relation in relations:
        store_name = TableName(name.as_namespace, relation.name.name)
        uow.relations.add(replace(relation, name=store_name if relation.kind.is_store else name))
    uow.stats.request_plans([relation.id for relation in relations], uow.now())
    uow.events.add(replace(build_event(entry, "undrop", uow.now()), table=name))
    return Restored(entry.id, entry.kind, name)


def _check_hive_table(uow: UnitOfWork, entry: Dropped, relations: Sequence[Relation]) -> None:
    """Raise Conflict when another table is linked to the same Hive table: sync would write it twice."""
    for relation in relations:
        if relation.hive_name is None:
            continue
        linked = uow.relations.linked_to_hive(entry.catalog)
        other = next((link for link in linked if link.hive_name == relation.hive_name), None)
        if other is not None:
            raise Conflict(
                f"{entry.name} cannot come back: Hive table {relation.hive_name} was upgraded again, to {other.name}",
                hint=f"drop {other.name} first, or leave this one dropped",
            )


def _check_no_neighbour(uow: UnitOfWork, entry: Dropped, relations: Sequence[Relation]) -> None:
    """Raise Conflict when another table uses the location: each would delete files of the other.

    A user may have registered the metadata of the dropped table again.
    """
    ids = {relation.id for relation in relations}
    users = [user for part in relations for user in uow.relations.find_at(list_spellings(part.location))]
    if any(user.id not in ids for user in users):
        raise Conflict(
            f"{entry.name} cannot come back: another table uses its location",
            hint="somebody probably registered it again: drop that table first, or leave this one dropped",
        )


def _explain_refusal(uow: UnitOfWork, entry: Dropped) -> CatalogError:
    """Why an entry that was listed a moment ago cannot be restored."""
    try:
        now = uow.dropped.get(entry.catalog, entry.id)
    except NotFound as error:
        return error
    if now.state is DroppedState.PURGING:
        return Conflict(f"{entry.name} cannot come back: its files are being deleted")
    return Conflict(f"another request has restored {entry.name} and dropped it again", hint="try again")


def _build_missing_files_error(entry: Dropped, relations: Sequence[Relation], check: FilesCheck) -> Conflict:
    shown = ", ".join(check.missing[:_SHOWN])
    metadata = next((relation.metadata_location for relation in relations if relation.metadata_location), None)
    can_register = metadata is not None and metadata not in check.missing and entry.kind is DroppedKind.TABLE
    advice = f"; to read the remaining files, register the metadata file {metadata} as a table" if can_register else ""
    return Conflict(
        f"{entry.name} cannot come back, because its files are gone: {len(check.missing)} of {check.checked} checked"
        f" files are missing, such as {shown}",
        hint=f"an engine has probably purged it. To remove it from the list:"
        f" firn table purge {entry.name} --id {entry.id} --keep-files{advice}",
    )
