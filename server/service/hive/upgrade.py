"""Upgrade: a Hive table becomes an Iceberg table over the files that it has, where they are.

An operation with a journal. Before anything is written, the journal names the directory that will be written to; the
last step is one database transaction that adds the table, its ground and the operation's end together. A crash
anywhere before it leaves the Hive table as it was and a directory that nobody refers to: the next try clears it and
begins anew. The Hive table itself is never changed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from catalog.datafile import DataFileEntry, FileStats
from catalog.errors import CatalogError, Conflict, Invalid
from catalog.hive.eligibility import key_blockers
from catalog.hive.ground import Ground, Listing, first_ground, ground_after
from catalog.hive.mapping import PROPERTY as NAME_MAPPING
from catalog.hive.mapping import name_mapping
from catalog.hive.model import HiveTable
from catalog.hive.names import partition_record
from catalog.hive.types import iceberg_fields
from catalog.iceberg.json import Json
from catalog.iceberg.table import apply_updates, current_schema, new_table
from catalog.keyed.spec import MERGED_THROUGH, KeySpec
from catalog.names import CatalogName, RelationId, TableName
from catalog.operation import Operation, OperationId, OperationKind, OperationStatus
from catalog.policy.policy import check_settings
from catalog.ports.hive import TableFiles
from catalog.ports.store import Database, UnitOfWork
from catalog.relation import RelationKind
from server.service.hive.attempt import Attempt, Canceled, Overtaken
from server.service.hive.check import Checks, all_columns, check_eligible, target_name
from server.service.hive.index import HiveIndex
from server.service.hive.state import HiveState, Unit, join, list_units, read_state, split_name
from server.service.keyed import KeyedTables, new_base
from server.service.namespaces import Namespaces
from server.service.relations import NewTable
from server.service.tables import TableDefinition, Tables, default_location

REPORT_EVERY_SECONDS = 0.5
SETTLE_SECONDS = 1.1
SETTLE_TRIES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeStatus:
    """What one activation of the task did."""

    finished: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Registered:
    """All files of the table, ready to be registered."""

    entries: list[DataFileEntry]
    grounds: dict[str, Ground]


@dataclass(frozen=True)
class Upgrades:
    """Starts upgrades and carries them out; the work is done by a background task, so a crash only delays it."""

    database: Database
    namespaces: Namespaces
    tables: Tables
    keyed: KeyedTables
    index: HiveIndex
    checks: Checks
    files: TableFiles

    def start(
        self, catalog: CatalogName, full_name: str, spec: KeySpec | None, properties: Mapping[str, str]
    ) -> Operation:
        """Note that a table is to be upgraded; Invalid or AlreadyExists when a check forbids it."""
        check_settings(properties)
        key = () if spec is None else spec.primary_key
        check_eligible(self.checks.report(catalog, full_name, key).checks)
        target = ".".join(split_name(full_name))
        with self.database.writing() as uow:
            running = [one for one in uow.operations.unfinished() if (one.catalog, one.target) == (catalog, target)]
            if running:
                raise Conflict(f"{target} is being upgraded already", hint=f"operation {running[0].id}")
            now = uow.now()
            operation = Operation(
                id=OperationId(uuid4()),
                kind=OperationKind.UPGRADE,
                catalog=catalog,
                target=target,
                status=OperationStatus.RUNNING,
                created_at=now,
                updated_at=now,
                params={"key": None if spec is None else spec.to_properties(), "properties": dict(properties)},
                phase="waiting",
                unit="files",
            )
            uow.operations.add(operation)
        return operation

    def cancel(self, operation_id: OperationId) -> Operation:
        """Ask an upgrade to stop; it does at its next step, and leaves nothing behind."""
        with self.database.writing() as uow:
            operation = uow.operations.lock(operation_id)
            if operation.status.is_final:
                raise Conflict(f"the {operation.kind} of {operation.target} has {operation.status} already")
            operation = replace(operation, cancel_asked=True)
            uow.operations.put(operation)
        return operation

    def activate(self) -> UpgradeStatus:
        """Carry out what has been started, also by a server that died; one that cannot end holds up no other.

        ExceptionGroup at the end when there were errors that leave an upgrade to the next activation.
        """
        status, broken = UpgradeStatus(), dict[str, Exception]()
        with self.database.reading() as uow:
            unfinished = uow.operations.unfinished()
        for operation in (one for one in unfinished if one.kind is OperationKind.UPGRADE):
            try:
                ended = self._carried_out_or_overtaken(operation)
            except Exception as error:  # noqa: BLE001 -- raised below, when the upgrades after it have had their turn
                broken[f"{operation.catalog}.{operation.target}"] = error
                continue
            if ended is not None:
                status = replace(status, finished=status.finished + ended, failed=status.failed + (not ended))
        if broken:
            raise ExceptionGroup(f"could not go on with {', '.join(broken)}", list(broken.values()))
        return status

    def _carried_out_or_overtaken(self, operation: Operation) -> bool | None:
        """Whether the table has been added; None when another server has gone on with it."""
        attempt = Attempt(self.database, self.files, operation, self._new_root(operation))
        try:
            return self._carried_out(attempt)
        except Overtaken:
            attempt.give_up()
            return None

    def _new_root(self, operation: Operation) -> str:
        with self.database.reading() as uow:
            warehouse = uow.catalogs.get(operation.catalog).warehouse
        database, name = split_name(operation.target)
        return default_location(warehouse, TableName((database,), name))

    def _carried_out(self, attempt: Attempt) -> bool:
        """Whether the table has been added. What cannot be known now, the operation's row tells the next activation."""
        try:
            try:
                attempt.begin()
                self._run(attempt)
            except Canceled:
                attempt.end(OperationStatus.CANCELED, "canceled", None)
                return False
        except CatalogError as error:
            attempt.end(OperationStatus.FAILED, error.message, error.hint)
            return False
        return True

    def _run(self, attempt: Attempt) -> None:
        operation = attempt.operation
        state = read_state(self.index.metastore(operation.catalog), *split_name(operation.target))
        key = operation.params["key"]
        spec = None if key is None else KeySpec.from_properties(key)
        self.checks.check(operation.catalog, state, spec.primary_key if spec else ())
        schema = hive_schema(state.table)
        registered = self._registered(attempt, state, schema)
        _check_keys(state, spec, schema, registered.entries)
        attempt.step("writing the snapshot", len(registered.entries), len(registered.entries))
        metadata = self._metadata(attempt, state, schema, spec, registered)
        self._add(attempt, state, spec, metadata, registered)

    def _registered(self, attempt: Attempt, state: HiveState, schema: Json) -> _Registered:
        """Every file with its footer's statistics and its partition, and the ground they make."""
        listed = self._settled_listings(attempt, state)
        locations: list[str] = []
        partitions: list[tuple[Any, ...]] = []
        for unit, listing in listed:
            record = partition_record(state.table.partition_columns, unit.values)
            locations += [join(unit.location, file.path) for file in listing.files]
            partitions += [record] * len(listing.files)
        stats = self._reported(attempt, self.files.footers(schema, locations), len(locations))
        entries = [DataFileEntry(stats=one, partition=part) for one, part in zip(stats, partitions, strict=True)]
        grounds = {
            unit.name: first_ground(unit.signals, listing)
            or ground_after(unit.signals, listing, listing.files, published_through=0)
            for unit, listing in listed
        }
        return _Registered(entries=entries, grounds=grounds)

    def _settled_listings(self, attempt: Attempt, state: HiveState) -> list[tuple[Unit, Listing]]:
        """Listings in which no file can still be replaced by one that looks the same (rule 3.7)."""
        units = state.units
        for _ in range(SETTLE_TRIES):
            attempt.step("listing directories", 0, len(units))
            listed = list(list_units(self.files, units))
            if all(first_ground(unit.signals, listing) is not None for unit, listing in listed):
                return listed
            time.sleep(SETTLE_SECONDS)
        raise Conflict(
            f"{attempt.operation.target} is being written: its files change faster than they can be listed",
            hint="try again when its writers pause for a second",
        )

    def _reported(self, attempt: Attempt, stats: Iterator[FileStats], total: int) -> list[FileStats]:
        """The same, telling how far it is."""
        found: list[FileStats] = []
        told = 0.0
        for one in stats:
            found.append(one)
            if time.monotonic() - told > REPORT_EVERY_SECONDS:
                told = time.monotonic()
                attempt.step("reading footers", len(found), total)
        return found

    def _metadata(
        self, attempt: Attempt, state: HiveState, schema: Json, spec: KeySpec | None, registered: _Registered
    ) -> Json:
        """The table's metadata with its first snapshot, whose manifests are written."""
        with self.database.reading() as uow:
            now_ms = int(uow.now().timestamp() * 1000)
        definition = _definition(state.table, schema, attempt.operation.params["properties"])
        if spec:
            empty = new_base(definition, spec, location=f"{attempt.root}/base", now_ms=now_ms)
        else:
            empty = _plain(definition, location=attempt.root, now_ms=now_ms)
        aliases = {alias for entry in registered.entries for alias in entry.stats.aliases}
        mapping = name_mapping(current_schema(empty), aliases)
        named = [{"action": "set-properties", "updates": {NAME_MAPPING: mapping}}]
        empty = apply_updates(empty, named, now_ms=now_ms, previous_location=None)
        if not registered.entries:
            return empty
        said = {"firn.reason": f"upgrade of {attempt.operation.target}", **({MERGED_THROUGH: "0"} if spec else {})}
        added = self.files.write_snapshot(
            empty, registered.entries, (), snapshot_id=secrets.randbits(62) + 1, now_ms=now_ms, summary_extra=said
        )
        return apply_updates(empty, added.updates(), now_ms=now_ms, previous_location=None)

    def _add(
        self, attempt: Attempt, state: HiveState, spec: KeySpec | None, metadata: Json, registered: _Registered
    ) -> None:
        """The last step: the table, its ground and the operation's end, together."""
        name, operation = target_name(state.table), attempt.operation
        self.namespaces.ensure(operation.catalog, name.namespace)

        def finish(uow: UnitOfWork, relation_id: RelationId) -> None:
            now = uow.now()
            current = attempt.current(uow)
            uow.grounds.put(relation_id, {unit: one.to_json() for unit, one in registered.grounds.items()})
            uow.grounds.put_link(relation_id, {**link_of(state.table), "swept_at": now.isoformat()}, now)
            result = {"table": str(name), "files": len(registered.entries), "rows": _rows(registered.entries)}
            done = replace(current, status=OperationStatus.SUCCEEDED, phase="done", result=result, journal={})
            uow.operations.put(replace(done, done=current.total, ended_at=now, updated_at=now))

        if spec is None:
            new = NewTable(name=name, kind=RelationKind.TABLE, metadata=metadata, hive_name=operation.target)
            self.tables.add(operation.catalog, [new], also=lambda uow: finish(uow, new.id))
            return
        root, hive_name = attempt.root, operation.target
        self.keyed.add(operation.catalog, name, spec, metadata, root=root, hive_name=hive_name, also=finish)


def hive_schema(table: HiveTable) -> Json:
    """The Iceberg schema of a Hive table: columns in files first, then partition columns."""
    counter = iter(range(1, 1_000_000))
    return {"type": "struct", "schema-id": 0, "fields": iceberg_fields(all_columns(table), lambda: next(counter))}


def link_of(table: HiveTable) -> dict[str, Any]:
    """What a sync compares the table itself with."""
    columns = [[column.name, column.type, column.comment] for column in table.columns]
    partitioned_by = [[column.name, column.type, column.comment] for column in table.partition_columns]
    return {
        "columns": columns,
        "partition_columns": partitioned_by,
        "ddl_time": table.ddl_time,
        "generation": 0,
        "given": 0,
        "published_at": None,
        "drift": None,
        "drift_since": None,
    }


def _definition(table: HiveTable, schema: Json, properties: Mapping[str, str]) -> TableDefinition:
    ids = {field["name"]: field["id"] for field in schema["fields"]}
    parts = [
        {"source-id": ids[column.name], "field-id": 1000 + at, "name": column.name, "transform": "identity"}
        for at, column in enumerate(table.partition_columns)
    ]
    comment = {"comment": table.parameters["comment"]} if table.parameters.get("comment") else {}
    return TableDefinition(
        name=target_name(table),
        schema=schema,
        partition_spec={"spec-id": 0, "fields": parts} if parts else None,
        properties={"format-version": "2", **comment, **properties},
    )


def _plain(definition: TableDefinition, *, location: str, now_ms: int) -> Json:
    """Engines must not expire by themselves what Hive still lists: see catalog.judge."""
    return new_table(
        uuid=str(uuid4()),
        location=location,
        schema=definition.schema,
        partition_spec=definition.partition_spec,
        sort_order=None,
        properties={**definition.properties, "gc.enabled": "false"},
        now_ms=now_ms,
    )


def _check_keys(state: HiveState, spec: KeySpec | None, schema: Json, entries: Sequence[DataFileEntry]) -> None:
    """Invalid when a key column or the sequence field holds nulls, as the footers count them.

    A row that does not say how new it is would stop every sync that has to read it.
    """
    if spec is None:
        return
    in_files = {column.name for column in state.table.columns}
    nulls: dict[str, int] = {}
    for field in schema["fields"]:
        if field["name"] in (*spec.primary_key, spec.sequence_field) and field["name"] in in_files:
            nulls[field["name"]] = sum(_nulls(entry.stats, field) for entry in entries)
    if spec.sequence_field and (count := nulls.get(spec.sequence_field)):
        raise Invalid(
            f"the sequence field {spec.sequence_field!r} holds nulls ({count} found): such rows have no place in order",
            hint="choose another sequence field or none, or remove the rows first",
        )
    found = key_blockers(state.table, state.partitions, spec.primary_key, nulls)
    if found:
        raise Invalid(found[0].message, hint=found[0].advice)


def _nulls(stats: FileStats, field: Json) -> int:
    """Nulls of one column in one file; a file that lacks the column holds nothing but nulls."""
    if field["id"] in stats.null_counts:
        return stats.null_counts[field["id"]]
    if field["id"] in stats.value_counts or not stats.record_count:
        raise Invalid(
            f"{stats.location} does not say how many nulls column {field['name']!r} has",
            hint="write the file again with statistics, or choose other key columns",
        )
    return stats.record_count


def _rows(entries: Sequence[DataFileEntry]) -> int:
    return sum(entry.stats.record_count for entry in entries)
