"""The tables of a statement: which ones its names mean, and the snapshot of each that the query reads.

A query reads what engines read under a table's name: a keyed table as its image, so without rows that were changed or
deleted since. Stores of keyed tables have such rows, so queries do not read them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from catalog.access.privileges import home_namespace
from catalog.errors import CatalogError, Invalid, NoSuchTable, NotFound
from catalog.history.lineage import find_ref_or_snapshot, find_snapshot_at
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot_id, snapshot_by_id
from catalog.locations.location_rule import FileRule
from catalog.names import CatalogName, TableName, parse_namespace
from catalog.ports.store import Database
from catalog.queries.query import QueriedTable
from catalog.tables.relation import RelationKind
from firn.protocol.tasks.query import QueryTable
from server.service.images.images import LAG, Images
from server.service.images.pair import build_image_rule
from server.service.locations.location_rule import build_file_rule
from server.service.queries.parsing import VIEW, NamedTable, Statement
from server.service.tables.keyed_tables import KeyedTables, find_serving_table
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.tables import Tables

_BY_SPARK = "Use Spark on your machine: `firn sql --engine local-spark`."


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTable:
    """A table at a snapshot, as the engine gets it, and the rule for the files that it may open."""

    table: QueryTable
    rule: FileRule
    note: str | None = None
    """What a reader should know: that the table's newest commits are not merged yet."""


@dataclass(frozen=True)
class QueryTables:
    """Finds and plans the tables of statements."""

    database: Database
    metadata: MetadataFiles
    tables: Tables
    keyed: KeyedTables
    images: Images

    def resolve(self, named: Sequence[NamedTable], catalog: CatalogName, namespace: str) -> list[QueriedTable]:
        """The tables that the names mean, in their order; whether they exist is not asked here.

        A name with one part belongs to the namespace. A longer one belongs to another catalog if it begins with the
        name of one. Invalid for a name that can be none of a table.
        """
        if not named:
            return []
        with self.database.reading() as uow:
            catalogs = {entry.name for entry in uow.catalogs.list()}
        return [_resolve(table, catalog, namespace, catalogs) for table in named]

    def plan(
        self, statement: Statement, tables: Sequence[QueriedTable], snapshot: str | None = None
    ) -> list[PlannedTable]:
        """The tables at their snapshots. `snapshot` is for a statement with one table.

        NotFound if a table or snapshot does not exist, Invalid for one that queries do not read, and Unavailable if a
        keyed table cannot be merged in time.
        """
        if snapshot is not None and len(tables) != 1:
            raise Invalid(
                f"the statement reads {len(tables)} tables at one snapshot",
                hint="Write FOR VERSION AS OF after each table instead.",
            )
        planned = []
        for number, (named, table) in enumerate(zip(statement.tables, tables, strict=True)):
            wanted = NamedTable(named.parts, version=snapshot) if snapshot is not None else named
            columns = None if statement.columns is None else sorted(statement.columns)
            planned.append(self.plan_table(table, wanted, VIEW.format(number), columns))
        return planned

    def plan_table(
        self, table: QueriedTable, wanted: NamedTable, view: str, columns: list[str] | None = None
    ) -> PlannedTable:
        """One table at a snapshot."""
        location, metadata = self._load(table)
        try:
            snapshot_id = _find_snapshot(metadata, wanted)
        except CatalogError as error:
            raise type(error)(f"{table.name}: {error.message}", hint=error.hint) from error
        lag = (metadata.get("properties") or {}).get(LAG)
        return PlannedTable(
            table=QueryTable(
                view=view, name=str(table.name), metadata=location, snapshot_id=snapshot_id, columns=columns
            ),
            rule=self._build_rule(table, metadata),
            note=None if lag is None else f"{table.name} as it was {int(lag) / 1000:,.0f} s ago: a merge is running",
        )

    def _load(self, table: QueriedTable) -> tuple[str, Json]:
        """The location of the metadata file that engines get, and what it says."""
        catalog, name = table.catalog, table.name
        located = self.database.locate(catalog, name)
        self._refuse_store(table)
        if located is None:
            with self.database.reading() as uow:
                uow.catalogs.get(catalog)
            raise NoSuchTable(f"Table does not exist: {name}")
        if located.kind is RelationKind.VIEW:
            raise Invalid(f"{name} is a view; queries read tables", hint=_BY_SPARK)
        if located.kind is RelationKind.KEYED:
            loaded = self.images.load(catalog, name)
            return loaded.metadata_location or "", orjson.loads(loaded.text)
        if located.kind is not RelationKind.TABLE:
            raise Invalid(f"{name} is a store of a keyed table", hint="Read the keyed table.")
        location = self.tables.load(catalog, name).metadata_location or ""
        return location, self.metadata.load(location).parsed

    def check_kind(self, table: QueriedTable) -> None:
        """Raise NoSuchTable for a missing table, and Invalid for a view or a store of a keyed table."""
        located = self.database.locate(table.catalog, table.name)
        self._refuse_store(table)
        if located is None:
            raise NoSuchTable(f"Table does not exist: {table.name}")
        if located.kind is RelationKind.VIEW:
            raise Invalid(f"{table.name} is a view; queries read tables", hint=_BY_SPARK)
        if located.kind not in (RelationKind.TABLE, RelationKind.KEYED):
            raise Invalid(f"{table.name} is a store of a keyed table", hint="Read the keyed table.")

    def load_rule(self, table: QueriedTable) -> FileRule:
        """The rule for the files that a table may name now."""
        self.check_kind(table)
        with self.database.reading() as uow:
            serving = find_serving_table(uow, table.catalog, table.name)
        metadata: Json = {}
        if serving.keyed is None:
            location = self.tables.load(table.catalog, table.name).metadata_location or ""
            metadata = self.metadata.load(location).parsed
        return self._build_rule(table, metadata)

    def _refuse_store(self, table: QueriedTable) -> None:
        owner = home_namespace(table.name)
        home = None if owner is None else self.database.locate(table.catalog, owner)
        if home is not None and home.kind is RelationKind.KEYED:
            raise Invalid(
                f"{table.name} may have rows of {owner} that were changed or deleted since; queries do not read it",
                hint=f"Read {owner}.",
            )

    def _build_rule(self, table: QueriedTable, metadata: Json) -> FileRule:
        """The rule for the files that the table may name, as for scans that the server plans."""
        with self.database.reading() as uow:
            serving = find_serving_table(uow, table.catalog, table.name)
            if serving.keyed is not None:
                pin = self.keyed.pin_relation(uow, serving.keyed)
                return build_image_rule(uow, self.database, self.metadata.files, pin)
            return build_file_rule(uow, self.database, self.metadata.files, serving.relation, metadata)


def _resolve(named: NamedTable, catalog: CatalogName, namespace: str, catalogs: set[CatalogName]) -> QueriedTable:
    parts = named.parts
    if len(parts) == 1:
        if not namespace:
            raise Invalid(f"{named.text} has no namespace", hint=f"Write NAMESPACE.{named.text}.")
        return QueriedTable(catalog, TableName(parse_namespace(namespace), parts[0]))
    if len(parts) > 2 and CatalogName(parts[0]) in catalogs:
        return QueriedTable(CatalogName(parts[0]), TableName(tuple(parts[1:-1]), parts[-1]))
    return QueriedTable(catalog, TableName(tuple(parts[:-1]), parts[-1]))


def _find_snapshot(metadata: Json, wanted: NamedTable) -> int | None:
    if wanted.version is not None:
        snapshot_id = find_ref_or_snapshot(metadata, wanted.version)
    elif wanted.time is not None:
        snapshot_id = find_snapshot_at(metadata, parse_time(wanted.time))
    else:
        return current_snapshot_id(metadata)
    if snapshot_by_id(metadata, snapshot_id) is None:
        raise NotFound(f"snapshot {snapshot_id} has expired", hint="`firn table snapshots` lists the snapshots")
    return snapshot_id


def parse_time(text: str) -> datetime:
    """The moment of a text; Invalid for other texts."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Invalid(f"{text[:60]} is no time", hint="Write it as 2026-11-28 09:45:00+00:00.") from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def check_files(planned: Sequence[PlannedTable]) -> Callable[[str, Sequence[str]], None]:
    """The check of files for the engine: each table's files by its own rule."""
    rules = {each.table.view: each.rule for each in planned}

    def check(view: str, files: Sequence[str]) -> None:
        rules[view].check(files)

    return check
