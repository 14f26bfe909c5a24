"""Views of a metastore: which can become Iceberg views, and making them so."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from catalog.errors import Invalid, NotFound
from catalog.history.commit import TableCommit
from catalog.hive.model import WALL_CLOCK, HiveColumn, HiveTable
from catalog.hive.types import UnsupportedType, iceberg_fields
from catalog.hive.view_translation import ViewQuery, list_tables, translate
from catalog.iceberg.json import Json
from catalog.names import CatalogName, TableName
from catalog.ports.store import Database
from catalog.tables.relation import Relation, RelationKind
from server.service.hive.hive_state import split_name
from server.service.hive.table_index import HiveIndex
from server.service.tables.namespaces import Namespaces
from server.service.tables.views import ViewDefinition, Views

SOURCE = "firn.hive.view"
"""Property of a view: the view of the metastore that it was made from."""
DIGEST = "firn.hive.view-digest"
"""Property of a view: the digest of that view's query, by which Firn notices that it has changed."""
_MATERIALIZED = "MATERIALIZED_VIEW"


class HiveViewState(StrEnum):
    """Where a view of the metastore stands."""

    READY = "ready"
    """It can be created now."""
    WAITING = "waiting"
    """It reads tables that are not upgraded, or views that are not created."""
    INEXACT = "inexact"
    """Its query is not known to give the same rows in Spark."""
    CREATED = "created"
    CHANGED = "changed"
    """It was created, and its query in the metastore has changed since."""
    TAKEN = "taken"
    """A table or view of another origin has its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveView:
    """A view of the metastore; `query` has its translation, or why there is none."""

    table: HiveTable
    state: HiveViewState
    query: ViewQuery
    waits_for: tuple[str, ...] = ()
    """The tables and views, as DATABASE.NAME, that have to come first."""

    @property
    def can_create(self) -> bool:
        """Whether a request to create it can succeed."""
        return self.query.sql is not None and self.state in (HiveViewState.READY, HiveViewState.CHANGED)


@dataclass(frozen=True)
class HiveViews:
    """Reads views of metastores, and creates views from them."""

    database: Database
    index: HiveIndex
    namespaces: Namespaces
    views: Views

    def show(self, catalog: CatalogName, names: Sequence[str]) -> list[HiveView]:
        """The views of these names, DATABASE.NAME, without those that the metastore does not have any more.

        The metastore is asked for them and for the tables that they read. Unavailable if it does not answer.
        """
        views = [table for table in self._load(catalog, names).values() if table.is_view]
        reads = {name for view in views for name in list_tables(view.view_text, view.database) if name.count(".") == 1}
        tables = self._load(catalog, sorted(reads))
        with self.database.reading() as uow:
            upgraded = uow.relations.of_hives(catalog, [*tables])
            objects = {name: uow.relations.find(catalog, _target(name)) for name in {*reads, *names}}
        present = {name for name, relation in objects.items() if relation is not None and name in tables}
        present = {name for name in present if name in upgraded or tables[name].is_view}
        return [self._examine(catalog, view, tables, present, objects[view.full_name]) for view in views]

    def create(self, catalog: CatalogName, full_name: str) -> HiveView:
        """Create a view, or replace its query if that has changed in the metastore; nothing if it has not.

        NotFound without the view, Invalid with the reason if it cannot be created.
        """
        full_name = ".".join(split_name(full_name))
        view = next(iter(self.show(catalog, [full_name])), None)
        if view is None:
            raise NotFound(f"the metastore has no view {full_name}")
        if view.state is HiveViewState.CREATED:
            return view
        if not view.can_create:
            raise Invalid(f"{full_name} cannot become a view: {explain(view)}", hint=_advise(view))
        definition = _define(view)
        if view.state is HiveViewState.CHANGED:
            with self.database.reading() as uow:
                now_ms = int(uow.now().timestamp() * 1000)
            self.views.commit(
                catalog, _replace(definition, now_ms), check=lambda metadata: _check_source(metadata, full_name)
            )
        else:
            self.namespaces.ensure(catalog, definition.name.namespace)
            self.views.create(catalog, definition)
        return HiveView(table=view.table, state=HiveViewState.CREATED, query=view.query)

    def _load(self, catalog: CatalogName, names: Sequence[str]) -> dict[str, HiveTable]:
        """Load tables and views of the metastore; the missing are left out."""
        by_database = defaultdict[str, list[str]](list)
        for name in names:
            database, own = split_name(name)
            by_database[database].append(own)
        metastore, tables = self.index.metastore(catalog), dict[str, HiveTable]()
        for database, own_names in by_database.items():
            try:
                tables |= {table.full_name: table for table in metastore.tables_detail(database, own_names)}
            except NotFound:
                continue
        return tables

    def _examine(
        self,
        catalog: CatalogName,
        view: HiveTable,
        tables: Mapping[str, HiveTable],
        present: set[str],
        existing: Relation | None,
    ) -> HiveView:
        columns = [column.name for column in view.storage.columns]
        schemas = {name: {column.name: column.type for column in _all_columns(table)} for name, table in tables.items()}
        query = translate(view.view_text, view.database, columns, schemas)
        if reasons := list(_find_differences(view, [tables[name] for name in query.tables if name in tables])):
            query = ViewQuery(sql=None, tables=query.tables, reasons=(*query.reasons, *reasons))
        state, waits_for = self._find_state(catalog, view, existing), tuple[str, ...]()
        if state is HiveViewState.READY and query.sql is None:
            state = HiveViewState.INEXACT
        elif state is HiveViewState.READY and (missing := [name for name in query.tables if name not in present]):
            state, waits_for = HiveViewState.WAITING, tuple(missing)
        return HiveView(table=view, state=state, query=query, waits_for=waits_for)

    def _find_state(self, catalog: CatalogName, view: HiveTable, existing: Relation | None) -> HiveViewState:
        """The state by what has the view's name: nothing, the view that was created from it, or something else."""
        if existing is None:
            return HiveViewState.READY
        if existing.kind is not RelationKind.VIEW:
            return HiveViewState.TAKEN
        properties = self.views.load_metadata(catalog, existing.name).get("properties", {})
        if properties.get(SOURCE) != view.full_name:
            return HiveViewState.TAKEN
        return HiveViewState.CREATED if properties.get(DIGEST) == _digest(view) else HiveViewState.CHANGED


def explain(view: HiveView) -> str:
    """Why a view is not created, in a clause that people read; empty if nothing is in the way."""
    if view.query.reasons:
        return "; ".join(view.query.reasons)
    if view.waits_for:
        return f"it reads {', '.join(view.waits_for)}, which Firn does not have yet"
    return "another table or view has its name" if view.state is HiveViewState.TAKEN else ""


def _advise(view: HiveView) -> str:
    if view.query.reasons:
        return "Write the view for Spark yourself: CREATE VIEW … in any engine that creates Iceberg views."
    if view.waits_for:
        return "Upgrade these tables, and create these views, first."
    return "Rename or drop that one first."


def _find_differences(view: HiveTable, tables: Sequence[HiveTable]) -> Iterator[str]:
    """Say what in the view's own entry keeps it from being an Iceberg view with the same rows."""
    if view.type == _MATERIALIZED:
        yield "it is a materialized view, whose rows Hive keeps"
    try:
        iceberg_fields(view.storage.columns, count().__next__)
    except UnsupportedType as error:
        yield f"its columns have a type that Iceberg does not have: {error}"
    has_wall_clock = any(WALL_CLOCK in column.type for table in tables for column in _all_columns(table))
    if has_wall_clock and any("timestamp" in column.type.lower() for column in view.storage.columns):
        yield "its timestamps come from ORC files, whose timestamps have another type in Iceberg"


def _define(view: HiveView) -> ViewDefinition:
    table, columns = view.table, count(1)
    assert view.query.sql is not None  # checked by the caller
    comment = table.parameters.get("comment")
    return ViewDefinition(
        name=_target(table.full_name),
        schema={
            "type": "struct",
            "schema-id": 0,
            "fields": iceberg_fields(table.storage.columns, lambda: next(columns)),
        },
        version={
            "version-id": 1,
            "schema-id": 0,
            "summary": {"engine-name": "firn"},
            "default-namespace": [table.database],
            "representations": [{"type": "sql", "sql": view.query.sql, "dialect": "spark"}],
        },
        properties={SOURCE: table.full_name, DIGEST: _digest(table), **({"comment": comment} if comment else {})},
    )


def _replace(definition: ViewDefinition, now_ms: int) -> TableCommit:
    version = {**definition.version, "timestamp-ms": now_ms, "schema-id": -1}
    return TableCommit(
        name=definition.name,
        updates=[
            {"action": "set-properties", "updates": dict(definition.properties)},
            {"action": "add-schema", "schema": definition.schema},
            {"action": "add-view-version", "view-version": version},
            {"action": "set-current-view-version", "view-version-id": -1},
        ],
    )


def _check_source(metadata: Json, full_name: str) -> None:
    """Refuse to replace a view that somebody has put in the place of the one that was created."""
    if metadata.get("properties", {}).get(SOURCE) != full_name:
        raise Invalid(f"the view {full_name} was not created from the metastore", hint="Rename or drop it first.")


def _all_columns(table: HiveTable) -> tuple[HiveColumn, ...]:
    return (*table.columns, *table.partition_columns)


def _digest(view: HiveTable) -> str:
    text = "\0".join([view.view_text, *(f"{column.name} {column.type}" for column in view.storage.columns)])
    return hashlib.sha256(text.encode()).hexdigest()


def _target(full_name: str) -> TableName:
    database, name = split_name(full_name)
    return TableName((database,), name)
