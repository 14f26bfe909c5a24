"""Views that engines have stored. The merged view of a keyed table is generated: see keyed_tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import uuid4

from catalog.errors import AlreadyExists, CatalogError, Invalid, NoSuchView, RequirementFailed
from catalog.history.commit import CommitEvent, TableCommit
from catalog.history.table_stats import read_engine
from catalog.history.views import compare_views, describe_created_view
from catalog.iceberg.json import Json
from catalog.iceberg.view import apply_view_updates, build_view, check_view, check_view_requirements, current_version
from catalog.imports.newest_metadata import read_version_number
from catalog.locations.links import Links
from catalog.locations.location_rule import list_own_locations
from catalog.names import CatalogName, Namespace, RelationId, TableName, explain_name_clash
from catalog.ports.page import Page
from catalog.ports.store import Database, UnitOfWork
from catalog.removal.undrop import Dropped
from catalog.tables.relation import ListedRelation, Pointer, Relation, RelationKind
from server.service.access.caller import caller
from server.service.commit.commit_path import raise_unknown_after_commit
from server.service.commit.commit_target import check_namespace
from server.service.commit.idempotency import Idempotency, remember
from server.service.drop.drop import DropOptions, check_not_being_purged, drop_relation
from server.service.locations.location_rule import (
    check_directories,
    check_moved,
    check_readable,
    check_registered,
    find_dropped_around,
)
from server.service.tables.default_locations import make_default_location
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.relations import make_event, make_rename_event
from server.service.tables.tables import Loaded

MAX_ROUNDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewDefinition:
    """The definition of a new view, in the terms of the Iceberg REST specification."""

    name: TableName
    schema: Json
    version: Json
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Views:
    """Stored views."""

    database: Database
    metadata: MetadataFiles

    def list(
        self,
        catalog: CatalogName,
        namespace: Namespace,
        kinds: Collection[RelationKind],
        *,
        limit: int,
        cursor: str | None = None,
    ) -> Page[ListedRelation]:
        """Relations of some kinds in a namespace, by name; NoSuchNamespace when there is none."""
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            page = uow.relations.names(catalog, namespace, kinds, limit=limit, cursor=cursor)
            if not page.items and cursor is None:
                _check_listed(uow, catalog, namespace)
            return page

    def create(
        self, catalog: CatalogName, definition: ViewDefinition, *, idempotency: Idempotency | None = None
    ) -> Loaded:
        """Create a view; AlreadyExists when the name is taken by anything."""
        name = definition.name
        with self.database.reading() as uow:
            _check_free(uow, catalog, name)
            warehouse, now = uow.catalogs.get(catalog).warehouse, uow.now()
        links = self.metadata.files
        metadata = build_view(
            uuid=str(uuid4()),
            location=definition.location or make_default_location(warehouse, name),
            schema=definition.schema,
            view_version=definition.version,
            properties=definition.properties,
            now_ms=int(now.timestamp() * 1000),
        )
        with self.database.reading() as uow:  # before the server writes there
            check_directories(uow, links, catalog, list_own_locations(metadata))
        location = self.metadata.write(metadata["location"], 0, metadata)
        try:
            return self._add(catalog, name, metadata, location, idempotency)
        except CatalogError:
            self.metadata.discard(location)
            raise

    def register(
        self,
        catalog: CatalogName,
        name: TableName,
        metadata_location: str,
        *,
        idempotency: Idempotency | None = None,
    ) -> Loaded:
        """Make a view of an existing metadata file; raises Invalid if the file is no view metadata."""
        with self.database.reading() as uow:
            _check_free(uow, catalog, name)  # the better message of two, if both checks fail
            dropped = find_dropped_around(uow, catalog, metadata_location)
            check_readable(uow, self.metadata.files, catalog, metadata_location, dropped)
        document = self.metadata.load(metadata_location)
        try:
            metadata = check_view(document.parsed)
        except Invalid as error:
            raise Invalid(f"{metadata_location} is not view metadata: {error.message}") from error
        return self._add(catalog, name, metadata, metadata_location, idempotency, is_foreign=True)

    def _add(
        self,
        catalog: CatalogName,
        name: TableName,
        metadata: Json,
        location: str,
        idempotency: Idempotency | None,
        *,
        is_foreign: bool = False,
    ) -> Loaded:
        with self.database.writing() as uow:
            _check_free(uow, catalog, name)
            add_view(uow, self.metadata.files, catalog, name, metadata, location, is_foreign=is_foreign)
            remember(uow, idempotency, [location])
        return Loaded(metadata_location=location, text=self.metadata.load(location).text)

    def load(self, catalog: CatalogName, name: TableName) -> Loaded:
        """NoSuchView when there is none."""
        with self.database.reading() as uow:
            relation = get_view(uow, catalog, name)
        assert relation.metadata_location is not None  # stored views have metadata
        document = self.metadata.load_present(relation.metadata_location)
        return Loaded(metadata_location=relation.metadata_location, text=document.text)

    def load_metadata(self, catalog: CatalogName, name: TableName) -> Json:
        """The parsed metadata of a view; NoSuchView when there is none."""
        with self.database.reading() as uow:
            relation = get_view(uow, catalog, name)
        assert relation.metadata_location is not None  # stored views have metadata
        return self.metadata.load_present(relation.metadata_location).parsed

    def commit(
        self,
        catalog: CatalogName,
        change: TableCommit,
        *,
        idempotency: Idempotency | None = None,
        check: Callable[[Json], None] = lambda _: None,
    ) -> Loaded:
        """Replace or alter a view; `check` may refuse what the change would be applied to."""
        name = change.name
        for _ in range(MAX_ROUNDS):
            with self.database.reading() as uow:
                relation, now = get_view(uow, catalog, name), uow.now()
            assert relation.metadata_location is not None  # stored views have metadata
            before = self.metadata.load(relation.metadata_location).parsed
            check_view_requirements(before, change.requirements)
            check(before)
            after = apply_view_updates(before, change.updates, now_ms=int(now.timestamp() * 1000))
            with self.database.reading() as uow:  # before the server writes there
                check_moved(uow, self.metadata.files, relation, before, after)
            location = self.metadata.write(after["location"], relation.version + 1, after)
            event = _event(relation, before, after, now)
            to = Pointer(location, after["location"])
            if self._moved(relation, before, after, to, event, idempotency):
                with raise_unknown_after_commit():
                    return Loaded(metadata_location=location, text=self.metadata.load(location).text)
            self.metadata.discard(location)
        raise RequirementFailed(f"other requests change {name} too fast", hint="try again")

    def _moved(
        self,
        relation: Relation,
        before: Json,
        after: Json,
        to: Pointer,
        event: CommitEvent,
        idempotency: Idempotency | None,
    ) -> bool:
        try:
            with self.database.writing() as uow:
                check_moved(uow, self.metadata.files, relation, before, after)
                return _move(uow, relation, to, event, idempotency)
        except CatalogError:
            self.metadata.discard(to.metadata_location)
            raise

    def drop(
        self, catalog: CatalogName, name: TableName, *, purge: bool = False, idempotency: Idempotency | None = None
    ) -> Dropped:
        """Drop a view; see `drop_relation`."""
        with self.database.writing() as uow:
            relation = get_view(uow, catalog, name)
            entry = drop_relation(uow, self.metadata, relation, DropOptions(purge=purge))
            remember(uow, idempotency)
        return entry

    def rename(
        self, catalog: CatalogName, source: TableName, to: TableName, *, idempotency: Idempotency | None = None
    ) -> None:
        """Give a view another name."""
        with self.database.writing() as uow:
            relation = get_view(uow, catalog, source)
            check_namespace(uow, catalog, to.namespace)
            holder = uow.relations.find_name_holder(catalog, to)
            if holder is not None and (holder.name == to or holder.id != relation.id):  # its own case may change
                kind = "View" if holder.kind is RelationKind.VIEW else "Table"
                message = f"Cannot rename {source} to {to}. {kind} already exists"
                raise AlreadyExists(message, hint=explain_name_clash(holder.name, to))
            uow.relations.rename(relation, to)
            uow.events.add(make_rename_event(relation, to, uow.now()))
            remember(uow, idempotency)


def _move(
    uow: UnitOfWork, relation: Relation, to: Pointer, event: CommitEvent, idempotency: Idempotency | None
) -> bool:
    now = uow.now()
    moved = uow.relations.move_pointer(relation, to, now)
    if moved:
        uow.events.add(replace(event, committed_at=now))
        remember(uow, idempotency, [to.metadata_location])
    return moved


def add_view(
    uow: UnitOfWork,
    links: Links,
    catalog: CatalogName,
    name: TableName,
    metadata: Json,
    location: str,
    *,
    is_foreign: bool = False,
) -> None:
    """Add a view whose metadata is written, with its first event. LocationRefused as for a table: see add_relation."""
    now = uow.now()
    relation = Relation(
        id=RelationId(uuid4()),
        catalog=catalog,
        name=name,
        kind=RelationKind.VIEW,
        owner_id=None,
        location=metadata["location"],
        metadata_location=location,
        version=read_version_number(location),
        created_at=now,
        updated_at=now,
    )
    uow.catalogs.hold(catalog)
    check_not_being_purged(uow, [relation.location, location])
    if is_foreign:
        check_registered(uow, links, relation, metadata, location, find_dropped_around(uow, catalog, location))
    else:
        check_directories(uow, links, catalog, list_own_locations(metadata))
    uow.relations.add(relation)
    uow.events.add(_versioned(make_event(relation, "create", now, describe_created_view(metadata)), metadata))


def _event(relation: Relation, before: Json, after: Json, now: datetime) -> CommitEvent:
    """Describe a commit that restored an earlier version."""
    version = current_version(after)
    version_ids = {version["version-id"] for version in before["versions"]}
    if version["version-id"] == before["current-version-id"]:
        operation = "properties"
    else:
        operation = "rollback" if version["version-id"] in version_ids else "replace view"
    event = _versioned(make_event(relation, operation, now, compare_views(before, after)), after)
    return replace(event, engine=caller.get().engine) if version["version-id"] in version_ids else event


def _versioned(event: CommitEvent, metadata: Json) -> CommitEvent:
    """Make the event of a new version; its engine is the one that the summary names."""
    version = current_version(metadata)
    engine = read_engine(version.get("summary") or {}) or event.engine
    return replace(event, engine=engine, schema_id=version["schema-id"], head_id=version["version-id"])


def get_view(uow: UnitOfWork, catalog: CatalogName, name: TableName) -> Relation:
    """The stored view of this name; NoSuchView when there is none."""
    relation = uow.relations.find(catalog, name)
    if relation is None or relation.kind is not RelationKind.VIEW:
        raise NoSuchView(f"View does not exist: {name}")
    return relation


def _check_free(uow: UnitOfWork, catalog: CatalogName, name: TableName) -> None:
    uow.catalogs.get(catalog)
    check_namespace(uow, catalog, name.namespace)
    holder = uow.relations.find_name_holder(catalog, name)
    if holder is not None:
        kind = "View" if holder.kind is RelationKind.VIEW else "Table with same name"
        raise AlreadyExists(f"{kind} already exists: {name}", hint=explain_name_clash(holder.name, name))


def _check_listed(uow: UnitOfWork, catalog: CatalogName, namespace: Namespace) -> None:
    if uow.namespaces.exists(catalog, namespace):
        return
    if len(namespace) > 1 and uow.relations.find(catalog, TableName(namespace[:-1], namespace[-1])) is not None:
        return
    check_namespace(uow, catalog, namespace)
