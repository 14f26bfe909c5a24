"""Conversion: the server adds a new table beside a Hive table, and a job fills it with the rows of the Hive table.

One transaction adds table and job. The table is empty until the job's one commit (catalog.hive.conversion_commit). A
failed job leaves an empty table that names its Hive table. A repeated conversion fills it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from catalog.errors import Conflict, Invalid
from catalog.hive.conversion import convert_columns, count_header_lines, find_conversion_blockers, replace_columns
from catalog.hive.conversion_commit import CONVERTED_FROM, WRITER, is_converted
from catalog.hive.listing import Subdirectories
from catalog.hive.model import HiveColumn, HiveStorage, HiveTable
from catalog.hive.readers import CSV, choose_reader
from catalog.hive.upgrade_check import find_key_blockers
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from catalog.jobs.job import Job, JobKind
from catalog.keyed.schema import build_base_schema
from catalog.keyed.spec import KeySpec
from catalog.maintenance.context import JobContext
from catalog.names import CatalogName, RelationId, TableName
from catalog.ports.files import TableFiles
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.tasks.convert import Column, ConvertTask, Layout
from firn.protocol.tasks.convert import Unit as StoredUnit
from server.service.commit.commit_target import load_metadata
from server.service.hive.hive_state import HiveState, Unit, list_units, read_state, split_name
from server.service.hive.table_index import HiveIndex, format_name
from server.service.hive.task_columns import describe_values
from server.service.hive.upgrade_check import CheckResult, blocked, check_eligible, hive_schema, target_name
from server.service.hive.upgrade_metadata import make_definition
from server.service.planning.planner import create_requested_job, load_facts
from server.service.tables.default_locations import make_default_location
from server.service.tables.keyed_metadata import build_base_metadata
from server.service.tables.keyed_tables import KeyedTables
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.namespaces import Namespaces
from server.service.tables.relations import NewTable
from server.service.tables.tables import TableDefinition, Tables

_IDS = frozenset({"id", "element-id", "key-id", "value-id"})
_FOLLOWS_NOT = (
    "This is a rewrite: all rows are read and written anew. Hive's table stays as it is, and the new one does not "
    "follow it: it is neither synced nor published."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """The report of a conversion: its input, and the problems that prevent it."""

    table: HiveTable
    target: TableName
    format: str
    partitions: int
    files: int
    bytes: int
    notes: tuple[str, ...]
    checks: tuple[CheckResult, ...]


@dataclass(frozen=True)
class Conversions:
    """Starts conversions, and tells their jobs what to read."""

    database: Database
    metadata: MetadataFiles
    namespaces: Namespaces
    keyed: KeyedTables
    index: HiveIndex
    files: TableFiles

    @property
    def tables(self) -> Tables:
        """All tables."""
        return self.keyed.tables

    def preview(
        self, catalog: CatalogName, full_name: str, name: TableName | None = None, spec: KeySpec | None = None
    ) -> Conversion:
        """Check a conversion, into a keyed table if `spec` is given; changes nothing.

        Raises NotFound without the Hive table, Unavailable if its metastore does not answer.
        """
        state = read_state(self.index.metastore(catalog), *split_name(full_name))
        target, checks = name or target_name(state.table), [*_checks(state, spec)]
        with self.database.reading() as uow:
            existing = uow.relations.find(catalog, target)
        if existing is not None:
            checks += self._check_target(existing, state.table, spec)
        unit_listings = () if state.table.is_view else (*list_units(self.files, state.units, Subdirectories.ASK),)
        listings = [listing for _, listing in unit_listings]
        checks += [_build_nested_check(unit) for unit, listing in unit_listings if listing.subdirectories][:1]
        return Conversion(
            table=state.table,
            target=target,
            format=format_name(state.table),
            partitions=len(state.partitions),
            files=sum(len(listing.files) for listing in listings),
            bytes=sum(file.size for listing in listings for file in listing.files),
            notes=tuple(_notes(state.table, spec)),
            checks=tuple(checks),
        )

    def start(
        self,
        catalog: CatalogName,
        full_name: str,
        name: TableName | None = None,
        spec: KeySpec | None = None,
        *,
        unique: bool = True,
    ) -> Job:
        """Add the empty table and the job that fills it; a table that a failed job left empty gets another job.

        With `spec` it is a keyed table. Then the job fills it only if every key occurs once, unless `unique` is False.
        Raises Invalid if a check fails, AlreadyExists if another table has the name, Conflict while a job is active.
        """
        state = read_state(self.index.metastore(catalog), *split_name(full_name))
        check_eligible(_checks(state, spec))
        target = name or target_name(state.table)
        with self.database.reading() as uow:
            existing = uow.relations.find(catalog, target)
        if existing is None:
            return self._begin(catalog, state.table, target, spec, unique=unique)
        check_eligible(self._check_target(existing, state.table, spec))
        _check_columns(self._stores(existing)[0], state.table, target)
        with self.database.writing() as uow:
            return _queue_job(uow, existing, state.table, unique=unique)

    def task(self, context: JobContext) -> ConvertTask:
        """Build the task of a job from Hive's present state.

        Raises Conflict if the table no longer waits for the rows of this Hive table.
        """
        name, metadata = context.main_store
        metastore = self.index.metastore(context.relation.catalog)
        state = read_state(metastore, *split_name(context.job.params["hive"]))
        spec = None if context.keyed is None else context.keyed.spec
        check_eligible(_checks(state, spec))
        if any(map(is_converted, context.metadata.values())):
            raise Conflict(
                f"{name} holds rows already, and a conversion fills an empty table",
                hint="drop it, or convert under another name",
            )
        _check_columns(metadata, state.table, name)
        unique = bool(context.job.params.get("unique", True))
        return _task(state, context.relation, name, spec, unique=unique)

    def _begin(
        self, catalog: CatalogName, table: HiveTable, target: TableName, spec: KeySpec | None, *, unique: bool
    ) -> Job:
        converted = replace_columns(table)
        definition = make_definition(converted, hive_schema(converted), {CONVERTED_FROM: table.full_name})
        self.namespaces.ensure(catalog, target.namespace)
        with self.database.reading() as uow:
            now_ms = int(uow.now().timestamp() * 1000)
            warehouse = uow.catalogs.get(catalog).warehouse
        jobs = list[Job]()

        def ask(uow: UnitOfWork, made_id: RelationId) -> None:
            jobs.append(_queue_job(uow, uow.relations.get(made_id), table, unique=unique))

        if spec is None:
            metadata = self.tables.build_metadata(catalog, replace(definition, name=target), now_ms=now_ms)
            new = NewTable(name=target, kind=RelationKind.TABLE, metadata=metadata)
            self.tables.add(catalog, [new], also=lambda uow: ask(uow, new.id))
        else:
            root = make_default_location(warehouse, target)
            base = build_base_metadata(_to_keyed(definition), spec, location=f"{root}/base", now_ms=now_ms)
            self.keyed.add(catalog, target, spec, base, root=root, also=ask)
        return jobs[0]

    def _stores(self, relation: Relation) -> list[Json]:
        """The table's metadata, or a keyed table's stores', base first."""
        if relation.kind is RelationKind.TABLE:
            return [load_metadata(self.metadata, relation)]
        with self.database.reading() as uow:
            keyed = uow.keyed.get(relation.id)
            stores = [uow.relations.get(store_id) for store_id in (keyed.base_id, keyed.change_id)]
        return [load_metadata(self.metadata, store) for store in stores]

    def _check_target(self, existing: Relation, table: HiveTable, spec: KeySpec | None) -> list[CheckResult]:
        """Check a table that has the target's name. It is no problem if it waits for these rows."""
        if existing.kind in (RelationKind.TABLE, RelationKind.KEYED):
            stores = self._stores(existing)
            properties = stores[0].get("properties", {})
            is_copy = properties.get(CONVERTED_FROM) == table.full_name
            if is_copy and not any(map(is_converted, stores)):
                return [] if KeySpec.from_properties(properties) == spec else [_build_other_key_check(existing)]
            if is_copy:
                message = f"{existing.name} is a copy of {table.full_name} already"
                advice = "Drop it for a newer one, or choose another name."
                return [CheckResult(code="name", status="blocked", message=message, advice=advice)]
        message = f"catalog {existing.catalog} has a {existing.kind} named {existing.name} already"
        return [CheckResult(code="name", status="blocked", message=message, advice="Choose another name.")]


def _checks(state: HiveState, spec: KeySpec | None) -> list[CheckResult]:
    checks = [blocked(blocker) for blocker in find_conversion_blockers(state.table, state.partitions)]
    if spec is None or checks:
        return checks
    converted = replace_columns(state.table)
    checks = [blocked(blocker) for blocker in find_key_blockers(converted, state.partitions, spec.primary_key)]
    if not checks:
        try:
            build_base_schema(hive_schema(converted), spec)
        except Invalid as error:
            advice = error.hint or "Choose another column, or convert without one."
            checks.append(CheckResult(code="key_type", status="blocked", message=error.message, advice=advice))
    return checks


def _build_other_key_check(existing: Relation) -> CheckResult:
    message = f"{existing.name} was made for these rows with another key, or without one, and is empty"
    return CheckResult(code="name", status="blocked", message=message, advice="Drop it, or choose another name.")


def _to_keyed(definition: TableDefinition) -> TableDefinition:
    """With the format version of any keyed table: no file of Hive's is to be registered."""
    return replace(
        definition, properties={key: value for key, value in definition.properties.items() if key != "format-version"}
    )


def _build_nested_check(unit: Unit) -> CheckResult:
    """Spark's reader of Hive's tables ends with an error there."""
    message = f"{unit.location} holds sub-directories, which conversions do not read"
    advice = "Move their files up, or INSERT OVERWRITE the table by Hive, which leaves none."
    return CheckResult(code="subdirectories", status="blocked", message=message, advice=advice)


def _queue_job(uow: UnitOfWork, relation: Relation, table: HiveTable, *, unique: bool) -> Job:
    reason = f"Spark copies all rows of {table.full_name}"
    facts = load_facts(uow, relation)
    return create_requested_job(
        uow, relation, facts, JobKind.CONVERT, {"hive": table.full_name, "unique": unique}, reason
    )


def _check_columns(metadata: Json, table: HiveTable, name: TableName) -> None:
    """The table was made of Hive's columns as they were then."""
    has = {field["name"]: _type(field["type"]) for field in current_schema(metadata)["fields"]}
    for field in hive_schema(replace_columns(table))["fields"]:
        if has.get(field["name"]) != _type(field["type"]):
            raise Conflict(
                f"column {field['name']!r} of {table.full_name} has changed in Hive since {name} was made",
                hint=f"drop {name}, which is empty, and convert again",
            )


def _type(kind: Any) -> Any:
    """A type without field ids, which depend on the order in which fields were added."""
    if isinstance(kind, dict):
        return {key: _type(value) for key, value in kind.items() if key not in _IDS}
    return [_type(part) for part in kind] if isinstance(kind, list) else kind


def _notes(table: HiveTable, spec: KeySpec | None) -> list[str]:
    notes = [_FOLLOWS_NOT]
    if spec is not None:
        notes.append("All keys are read and counted first: one without a value, or one that repeats, stops it.")
    if table.storage.serde == CSV:
        notes.append("All columns become strings: whatever types are declared, Hive reads this format so.")
    if count := count_header_lines(table):
        notes.append(f"The first lines of each file ({count}) are left out, as the table says.")
    return notes


def _task(state: HiveState, relation: Relation, name: TableName, spec: KeySpec | None, *, unique: bool) -> ConvertTask:
    """Partitions refer to how they are stored by number: mostly they are all stored alike."""
    table = state.table
    layouts: list[Layout] = []

    def layout(storage: HiveStorage) -> int:
        described = _layout(storage)
        if described not in layouts:
            layouts.append(described)
        return layouts.index(described)

    stored = [partition.storage for partition in state.partitions] if table.partition_columns else [table.storage]
    return ConvertTask(
        parts=[*name.namespace, name.name],
        source=table.full_name,
        columns=_columns(convert_columns(table)),
        partition_columns=_columns(table.partition_columns),
        table=_layout(table.storage),
        parameters=dict(table.parameters),
        header_lines=count_header_lines(table),
        layouts=layouts,
        units=[
            StoredUnit(location=unit.location, values=describe_values(table, unit.name), layout=layout(storage))
            for unit, storage in zip(state.units, stored, strict=True)
        ],
        writer=WRITER,
        batch=str(relation.id),
        primary_key=[] if spec is None else list(spec.primary_key),
        unique=unique,
    )


def _layout(storage: HiveStorage) -> Layout:
    reader = choose_reader(storage)
    assert reader is not None  # a table with files that nobody reads was blocked before
    return Layout(
        reader=reader,
        serde=storage.serde,
        input_format=storage.input_format,
        parameters=dict(storage.serde_parameters),
        columns=_columns(storage.columns),
    )


def _columns(columns: Sequence[HiveColumn]) -> list[Column]:
    return [Column(name=column.name, type=column.type) for column in columns]
