"""Creates, loads, registers, renames and drops tables. Commits are in server.service.commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import uuid4

from catalog.errors import (
    AlreadyExists,
    CatalogError,
    CommitRefused,
    CommitUnknown,
    Invalid,
    NoSuchTable,
    RequirementFailed,
    Unavailable,
)
from catalog.history.commit import TableCommit
from catalog.iceberg.formats import checked
from catalog.iceberg.json import Json
from catalog.iceberg.table import apply_updates, build_empty_table, build_table, check_requirements
from catalog.imports.newest_metadata import read_version_number
from catalog.keyed.spec import KeySpec
from catalog.locations.location_rule import list_own_locations
from catalog.names import CatalogName, TableName, explain_name_clash
from catalog.policy.log_settings import check_no_log
from catalog.ports.manifests import ManifestLists
from catalog.ports.store import Database, UnitOfWork
from catalog.removal.undrop import Dropped
from catalog.scan.mode import build_planning_config
from catalog.tables.relation import Relation, RelationKind
from server.service.commit.commit_path import raise_unknown_after_commit, raise_unknown_if_unavailable
from server.service.commit.commit_target import check_namespace, get_table, load_metadata
from server.service.commit.earlier_commits import find_earlier_tables
from server.service.commit.file_locations import CommittedFiles
from server.service.commit.idempotency import Idempotency, remember
from server.service.drop.drop import DropOptions, describe_drop_reason, drop_relation
from server.service.jobs.fencing import end_jobs, rename_jobs
from server.service.locations.location_rule import (
    check_directories,
    check_published,
    check_readable,
    find_dropped_around,
)
from server.service.tables.default_locations import make_default_location
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.relations import (
    NewTable,
    add_relation,
    forget_relation,
    make_relation,
    make_rename_event,
    refuse_store,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """The definition of a new table, in the terms of the Iceberg REST specification."""

    name: TableName
    schema: Json
    partition_spec: Json | None = None
    sort_order: Json | None = None
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The metadata of a table as text, and the location of its file (None for a staged table)."""

    metadata_location: str | None
    text: bytes
    config: Mapping[str, str] = field(default_factory=dict)
    """Settings that the server sends to clients with the metadata."""
    state: str = ""
    """The further state on which the text depends, besides the location; a part of the entity tag."""


AlsoOnAdd = Callable[[UnitOfWork], None]


@dataclass(frozen=True)
class Tables:
    """Plain tables and the stores of keyed ones, as relations with metadata."""

    database: Database
    metadata: MetadataFiles
    manifest_lists: ManifestLists

    def create(
        self, catalog: CatalogName, definition: TableDefinition, *, idempotency: Idempotency | None = None
    ) -> Loaded:
        """Create a plain table; see `add` for failures."""
        check_no_log(definition.properties)
        now_ms = self._now_ms()
        metadata = self.build_metadata(catalog, definition, now_ms=now_ms)
        is_placed = definition.location is None
        new = NewTable(name=definition.name, kind=RelationKind.TABLE, metadata=metadata, is_placed=is_placed)
        return self._loaded(self.add(catalog, [new], idempotency=idempotency)[0])

    def stage(self, catalog: CatalogName, definition: TableDefinition) -> Json:
        """Build the metadata of a table that a later commit with assert-create will create. The server stores nothing.

        On a local disk it makes the directory of the metadata: DuckDB writes manifests there and makes no directory.
        """
        with self.database.reading() as uow:
            self._check_free(uow, catalog, definition.name)
        metadata = self.build_metadata(catalog, definition, now_ms=self._now_ms())
        with self.database.reading() as uow:
            named_directories = list_own_locations(metadata)[definition.location is None :]
            check_directories(uow, self.metadata.files, catalog, named_directories)
        with suppress(Unavailable, AlreadyExists):  # the client may have rights that the server lacks
            self.metadata.files.make_directory(f"{metadata['location']}/metadata")
        return metadata

    def create_by_commit(
        self,
        catalog: CatalogName,
        change: TableCommit,
        *,
        idempotency: Idempotency | None = None,
        may_read: Callable[[TableName], bool] = lambda _name: True,
    ) -> Loaded:
        """Create a table by the last commit of a create transaction, whose updates hold all of its metadata.

        A repeated request gets the table as it is now: if the server refused it, the client would delete live files.
        Raises CommitUnknown if the client may not read that table: its UUID is no proof that the client created it,
        and clients keep their files after this answer, too.
        """
        with raise_unknown_if_unavailable():
            created = self._find_created(catalog, change)
        if created is not None:
            if not may_read(created.name):
                raise CommitUnknown(
                    f"an earlier try of this request may have created {change.name}, which you may not read"
                )
            return self._loaded(created)
        check_requirements(None, change.requirements)
        metadata = self._build_committed(catalog, change)
        new = NewTable(name=change.name, kind=RelationKind.TABLE, metadata=metadata)
        try:
            self._check_committed(catalog, new, change.updates)
            relation = self.add(catalog, [new], idempotency=idempotency)[0]
        except AlreadyExists as error:
            if not self._is_table(catalog, change.name):
                raise
            message = f"Requirement failed: table already exists: {change.name}"
            raise RequirementFailed(message, hint=error.hint) from error
        with raise_unknown_after_commit():
            return self._loaded(relation)

    def _build_committed(self, catalog: CatalogName, change: TableCommit) -> Json:
        """Build the metadata of a create transaction; raises CommitRefused for a keyed table."""
        location = next((u["location"] for u in change.updates if u.get("action") == "set-location"), None)
        with self.database.reading() as uow:
            warehouse = uow.catalogs.get(catalog).warehouse
        start = build_empty_table(uuid=str(uuid4()), location=location or make_default_location(warehouse, change.name))
        metadata = apply_updates(start, change.updates, now_ms=self._now_ms(), previous_location=None)
        if KeySpec.from_properties(metadata.get("properties", {})) is not None:
            raise CommitRefused(
                "a keyed table cannot be created together with its data",
                hint="run CREATE TABLE first, then INSERT INTO the table, or upsert with firn.spark",
            )
        return metadata

    def _check_committed(self, catalog: CatalogName, new: NewTable, updates: Sequence[Json]) -> None:
        """Check the directories of a new table, then its files, which may lie in these directories."""
        links = self.metadata.files
        with self.database.reading() as uow:
            self._check_free(uow, catalog, new.name)
            check_directories(uow, links, catalog, list_own_locations(new.metadata), new.list_kin())
            relation = make_relation(catalog, new, None, uow.now())
        files = CommittedFiles(self.database, links, self.manifest_lists)
        files.check(relation, None, new.metadata, updates)

    def _is_table(self, catalog: CatalogName, name: TableName) -> bool:
        with self.database.reading() as uow:
            holder = uow.relations.find_name_holder(catalog, name)
        return holder is None or holder.kind is not RelationKind.VIEW

    def _find_created(self, catalog: CatalogName, change: TableCommit) -> Relation | None:
        """Find the table that this commit has created before, also if it was renamed since then."""
        uuids = [update["uuid"] for update in change.updates if update.get("action") == "assign-uuid"]
        with self.database.reading() as uow:
            candidates = [uow.relations.find(catalog, change.name)]
            if earlier := find_earlier_tables(uow, catalog, [change]):
                candidates += uow.relations.get_many([table.relation_id for table in earlier.values()]).values()
        for relation in candidates:
            if relation is not None and relation.kind is RelationKind.TABLE and uuids:
                now = load_metadata(self.metadata, relation)
                if now["table-uuid"].lower() == uuids[-1].lower():
                    return relation
        return None

    def register(
        self,
        catalog: CatalogName,
        name: TableName,
        metadata_location: str,
        *,
        overwrite: bool = False,
        idempotency: Idempotency | None = None,
    ) -> Loaded:
        """Make a table of an existing metadata file; raises Invalid if the file is no table metadata.

        With `overwrite` the server first removes a plain table of this name.
        """
        with self.database.reading() as uow:
            existing = uow.relations.find(catalog, name)
            if not overwrite:
                self._check_free(uow, catalog, name)  # the better message of two, if both checks fail
            own_ids = [
                *find_dropped_around(uow, catalog, metadata_location),
                *([existing.id] if existing and overwrite else []),
            ]
            check_readable(uow, self.metadata.files, catalog, metadata_location, own_ids)
        document = self.metadata.load(metadata_location)
        try:
            metadata = checked(document.parsed)
        except Invalid as error:
            raise Invalid(f"{metadata_location} is not table metadata: {error.message}") from error
        with self.database.writing() as uow:
            existing = uow.relations.find(catalog, name)
            if existing is not None and overwrite and existing.kind.is_table:
                forget_relation(uow, self.metadata, existing, "overwritten")
            self._check_free(uow, catalog, name)
            version = read_version_number(metadata_location)
            new = NewTable(name=name, kind=RelationKind.TABLE, metadata=metadata, version=version, is_foreign=True)
            relation = add_relation(uow, self.metadata.files, catalog, new, metadata_location, registered=True)
            remember(uow, idempotency, [metadata_location])
        return self._loaded(relation)

    def unregister(self, catalog: CatalogName, name: TableName, *, idempotency: Idempotency | None = None) -> Loaded:
        """Remove a plain table for good, so that another catalog can take it. Returns its last metadata."""
        with self.database.writing() as uow:
            relation = get_table(uow, catalog, name)
            relation = forget_relation(uow, self.metadata, relation, "unregistered")
            remember(uow, idempotency, [relation.metadata_location])
        return self._loaded(relation)

    def build_metadata(self, catalog: CatalogName, definition: TableDefinition, *, now_ms: int) -> Json:
        """Build the metadata of a table from its definition."""
        with self.database.reading() as uow:
            warehouse = uow.catalogs.get(catalog).warehouse
        return build_table(
            uuid=str(uuid4()),
            location=(definition.location or make_default_location(warehouse, definition.name)).rstrip("/"),
            schema=definition.schema,
            partition_spec=definition.partition_spec,
            sort_order=definition.sort_order,
            properties=definition.properties,
            now_ms=now_ms,
        )

    def add(
        self,
        catalog: CatalogName,
        tables: Sequence[NewTable],
        *,
        owner: Relation | None = None,
        also: AlsoOnAdd | None = None,
        idempotency: Idempotency | None = None,
    ) -> list[Relation]:
        """Write the metadata of tables and add the tables, all or none of them.

        `owner` is their keyed table. `also` runs in the same transaction. `idempotency` remembers the locations of the
        metadata. Raises AlreadyExists for a name that is taken, NoSuchNamespace, and CommitUnknown if the database did
        not answer its commit. If the tables are refused, their metadata files are deleted.
        """
        written: list[tuple[NewTable, str]] = []
        try:
            with self.database.reading() as uow:  # before the server writes there
                self._check_directories(uow, catalog, tables, owner)
            for table in tables:
                location = self.metadata.write(table.metadata["location"], 0, table.metadata)
                written.append((table, location))
            with self.database.writing() as uow:
                self._check_free(uow, catalog, owner.name if owner else tables[0].name)
                if owner is not None:
                    self._add_owner(uow, catalog, owner)
                links = self.metadata.files
                relations = [add_relation(uow, links, catalog, table, location) for table, location in written]
                if also is not None:
                    also(uow)
                remember(uow, idempotency, [location for _, location in written])
            return relations
        except CatalogError:
            for _, location in written:
                self.metadata.discard(location)
            raise

    def _check_directories(
        self, uow: UnitOfWork, catalog: CatalogName, tables: Sequence[NewTable], owner: Relation | None
    ) -> None:
        """Check that the name is free, and that the server may write to the directories of the new tables."""
        links = self.metadata.files
        self._check_free(uow, catalog, owner.name if owner else tables[0].name)
        for table in tables:
            check_directories(uow, links, catalog, table.named_directories, table.list_kin())
            check_published(uow, links, catalog, table.metadata.get("properties") or {})
        if owner is not None:
            check_directories(uow, links, catalog, [owner.location], [owner.id])

    def _add_owner(self, uow: UnitOfWork, catalog: CatalogName, owner: Relation) -> None:
        uow.catalogs.hold(catalog)
        check_directories(uow, self.metadata.files, catalog, [owner.location], [owner.id])
        uow.relations.add(owner)

    def load(self, catalog: CatalogName, name: TableName) -> Loaded:
        """Load the stored metadata of a table. Raises NoSuchTable, or NotFound if the metadata file is gone."""
        located = self.database.locate(catalog, name)
        if located is None or not located.kind.is_table or located.metadata_location is None:
            return self._loaded(self._existing(catalog, name))
        return self._at(located.metadata_location, located.kind)

    def _existing(self, catalog: CatalogName, name: TableName) -> Relation:
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            return get_table(uow, catalog, name)

    def check_exists(self, catalog: CatalogName, name: TableName) -> None:
        """Raise NoSuchTable unless the table exists; reads no file."""
        located = self.database.locate(catalog, name)
        if located is None or not located.kind.is_table:
            self._existing(catalog, name)

    def rename(
        self, catalog: CatalogName, source: TableName, to: TableName, *, idempotency: Idempotency | None = None
    ) -> None:
        """Rename a plain table; raises Conflict for a single store of a keyed table."""
        with self.database.writing() as uow:
            relation = get_table(uow, catalog, source)
            refuse_store(relation, "renamed")
            check_namespace(uow, catalog, to.namespace)
            holder = uow.relations.find_name_holder(catalog, to)
            # A relation may take a name that differs from its own in case alone.
            if holder is not None and (holder.name == to or holder.id != relation.id):
                message = f"Cannot rename {source} to {to}. {_shown(holder.kind)} already exists"
                raise AlreadyExists(message, hint=explain_name_clash(holder.name, to))
            rename_jobs(uow, relation.id, to)
            uow.relations.rename(relation, to)
            uow.events.add(make_rename_event(relation, to, uow.now()))
            remember(uow, idempotency)

    def drop(
        self, catalog: CatalogName, name: TableName, *, purge: bool = False, idempotency: Idempotency | None = None
    ) -> Dropped:
        """Drop a plain table and end its job; raises Conflict for a single store of a keyed table."""
        with self.database.writing() as uow:
            relation = get_table(uow, catalog, name)
            refuse_store(relation, "dropped")
            end_jobs(uow, [relation.id], describe_drop_reason(relation))
            entry = drop_relation(uow, self.metadata, relation, DropOptions(purge=purge))
            remember(uow, idempotency)
        return entry

    def _loaded(self, relation: Relation) -> Loaded:
        if relation.metadata_location is None:
            raise NoSuchTable(f"Table does not exist: {relation.name}")
        return self._at(relation.metadata_location, relation.kind)

    def _at(self, location: str, kind: RelationKind) -> Loaded:
        document = self.metadata.load_present(location)
        return Loaded(
            metadata_location=location, text=document.text, config=build_planning_config(kind, document.parsed)
        )

    def _check_free(self, uow: UnitOfWork, catalog: CatalogName, name: TableName) -> None:
        """Raise NoSuchNamespace or AlreadyExists unless a table of this name can be created."""
        uow.catalogs.get(catalog)
        check_namespace(uow, catalog, name.namespace)
        holder = uow.relations.find_name_holder(catalog, name)
        if holder is not None:
            same = " with same name" if holder.kind is RelationKind.VIEW else ""
            message = f"{_shown(holder.kind)}{same} already exists: {name}"
            raise AlreadyExists(message, hint=explain_name_clash(holder.name, name))

    def _now_ms(self) -> int:
        with self.database.reading() as uow:
            return int(uow.now().timestamp() * 1000)


def _shown(kind: RelationKind) -> str:
    return "View" if kind is RelationKind.VIEW else "Table"
