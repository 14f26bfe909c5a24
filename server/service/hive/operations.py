"""Requests for upgrades and checks: start one or many, pause, resume and cancel. `upgrade` carries them out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any
from uuid import uuid4

from catalog.errors import Conflict, Invalid, NotFound
from catalog.hive.table_index import EVERY_TABLE, HiveTableFilter
from catalog.hive.wave import Wave
from catalog.jobs.operation import (
    WAITING,
    BatchId,
    Operation,
    OperationId,
    Tally,
    pause_operation,
    resume_operation,
    to_cancel,
)
from catalog.keyed.key_file import FileKey, parse_keys, refuse_lines
from catalog.keyed.spec import KeySpec
from catalog.locations.links import Links
from catalog.names import CatalogName
from catalog.policy.policy import check_settings
from catalog.ports.operations import Operations as Stored
from catalog.ports.store import Database, UnitOfWork
from firn.protocol.operations import OperationKind, OperationStatus
from server.service.hive.hive_state import read_state, split_name
from server.service.hive.upgrade_check import Checks, check_eligible
from server.service.locations.location_rule import check_properties

PATTERN = "*?["
_PAGE = 1000
_NAMED = 20
"""The number of names that a wave keeps of its selection; its operations name all tables."""
_NAME_LENGTH = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Tables to upgrade, named `database.table` or by patterns; those named in `keys` get a key of their own."""

    tables: Sequence[str]
    key: KeySpec | None = None
    keys: Mapping[str, KeySpec | None] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    unique: bool = False
    """With a dry run: count the duplicate keys of each table that has a key."""
    only: HiveTableFilter | None = None
    """All tables of the index that match, as they are at the start, beside those of `tables`."""
    key_file: str = ""
    """Further keys, as CSV; see `catalog.keyed.key_file`. Keys of tables that are not among the chosen count not."""
    name: str = ""
    stop_after: int | None = None
    """See `catalog.hive.wave.Wave`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The operations that one request started, and the skipped tables with the reasons."""

    batch: BatchId
    count: int
    skipped: Mapping[str, str]
    unused_keys: int = 0
    """The number of keys of the file that no chosen table needs."""


@dataclass(frozen=True)
class Operations:
    """Stores requests; a background task carries them out."""

    database: Database
    checks: Checks
    links: Links

    def start(
        self, catalog: CatalogName, full_name: str, spec: KeySpec | None, properties: Mapping[str, str]
    ) -> Operation:
        """Note that a table is to be upgraded; Invalid or AlreadyExists when the metastore tells against it.

        What only its files tell is found by the upgrade itself.
        """
        check_settings(properties)
        database, name = split_name(full_name)
        state = read_state(self.checks.index.metastore(catalog), database, name)
        check_eligible(self.checks.check_state(catalog, state, () if spec is None else spec.primary_key, properties))
        target = f"{database}.{name}"
        with self.database.writing() as uow:
            check_unworked(uow, catalog, target)
            check_properties(uow, self.links, catalog, properties)
            new = _build_operation(uow, OperationKind.UPGRADE, catalog, properties)
            operation = replace(new, target=target, params=_params(spec, new))
            uow.operations.add(operation)
        return operation

    def start_many(self, catalog: CatalogName, wanted: Wanted) -> Started:
        """Note that many are to be upgraded, or with a dry run checked: each on its own, and looked at only then.

        NotFound when a pattern matches nothing, Invalid for a key of a table that is not among them.
        """
        check_settings(wanted.properties)
        _refuse_keyless_count(wanted)
        self.checks.index.metastore(catalog)  # Invalid when there is none
        keys = {".".join(split_name(name)): spec for name, spec in wanted.keys.items()}
        file_keys = parse_keys(wanted.key_file) if wanted.key_file else {}
        with self.database.reading() as uow:
            chosen, skipped = _choose_tables(uow, catalog, wanted)
            _refuse_unknown(uow, catalog, file_keys, {*chosen, *skipped})
        if strange := keys.keys() - chosen - skipped.keys():
            raise Invalid(f"a key is given for {min(strange)}, which is not among the tables")
        keys = {**{name: key.spec for name, key in file_keys.items()}, **keys}
        kind = OperationKind.CHECK if wanted.dry_run else OperationKind.UPGRADE
        with self.database.writing() as uow:
            check_properties(uow, self.links, catalog, wanted.properties)
            if not wanted.dry_run:
                running = uow.operations.working_on(catalog, chosen)
                skipped |= {name: f"its {operation.kind} is under way" for name, operation in running.items()}
                chosen = [name for name in chosen if name not in running]
            wave = _build_wave(uow, kind, catalog, wanted, len(chosen))
            new = _build_operation(uow, kind, catalog, wanted.properties)
            new = replace(new, params={**new.params, "unique": wanted.unique}) if wanted.unique else new
            operations = [
                replace(
                    new, id=_new_id(), target=name, batch=wave.batch, params=_params(keys.get(name, wanted.key), new)
                )
                for name in chosen
            ]
            uow.operations.add_all(operations)
            if chosen:
                uow.waves.add(wave)
        unused = len(file_keys.keys() - chosen)
        return Started(batch=wave.batch, count=len(chosen), skipped=skipped, unused_keys=unused)

    def pause(self, operation_id: OperationId) -> Operation:
        """It stops at its next step, and stays so until it is resumed, whatever restarts meanwhile."""
        return self._move(operation_id, pause_operation)

    def resume(self, operation_id: OperationId) -> Operation:
        """It begins anew, when its turn comes."""
        return self._move(operation_id, resume_operation)

    def cancel(self, operation_id: OperationId) -> Operation:
        """It stops at its next step, and leaves nothing behind."""
        return self._move(operation_id, to_cancel)

    def tally(self, catalog: CatalogName, batch: BatchId) -> Tally:
        """Load the state of a batch. Raises NotFound if the catalog has no batch of this id."""
        with self.database.reading() as uow:
            return _tally(uow, catalog, batch)

    def pause_all(self, catalog: CatalogName, batch: BatchId) -> Tally:
        """Pause all of a batch that can be."""
        return self._move_all(catalog, batch, lambda all_of, now: all_of.pause_all(batch, now))

    def resume_all(self, catalog: CatalogName, batch: BatchId) -> Tally:
        """Resume all of a batch that are paused."""
        with self.database.writing() as uow:
            _tally(uow, catalog, batch)
            wave = uow.waves.lock(batch)
            if wave is not None:
                uow.waves.put(wave.resumed(uow.operations.failures(batch)))
            uow.operations.resume_all(batch, uow.now())
            return _tally(uow, catalog, batch)

    def cancel_all(self, catalog: CatalogName, batch: BatchId) -> Tally:
        """Cancel all of a batch that have not ended."""
        return self._move_all(catalog, batch, lambda all_of, now: all_of.cancel_all(batch, now))

    def _move_all(self, catalog: CatalogName, batch: BatchId, move: Callable[[Stored, datetime], int]) -> Tally:
        with self.database.writing() as uow:
            _tally(uow, catalog, batch)
            move(uow.operations, uow.now())
            return _tally(uow, catalog, batch)

    def _move(self, operation_id: OperationId, move: Callable[[Operation, datetime], Operation]) -> Operation:
        with self.database.writing() as uow:
            operation = move(uow.operations.lock(operation_id), uow.now())
            uow.operations.put(operation)
        return operation


def check_unworked(uow: UnitOfWork, catalog: CatalogName, target: str) -> None:
    """Conflict while a table is upgraded or downgraded."""
    for other in uow.operations.working_on(catalog, [target]).values():
        raise Conflict(f"another {other.kind} of {target} is under way", hint=f"operation {other.id}")


def _tally(uow: UnitOfWork, catalog: CatalogName, batch: BatchId) -> Tally:
    tally = uow.operations.tally(batch)
    if tally.catalog != catalog:
        raise NotFound(f"catalog {catalog} has no batch {batch} of operations")
    return tally


def _refuse_keyless_count(wanted: Wanted) -> None:
    """Refuse a count of keys without a key, or together with the upgrade: its result comes too late then."""
    if not wanted.unique:
        return
    if not wanted.dry_run:
        raise Invalid("keys are counted before an upgrade, by a dry run", hint="add dry_run, and upgrade afterwards")
    if wanted.key is None and not any(wanted.keys.values()) and not wanted.key_file:
        raise Invalid("a count of duplicate keys needs a key", hint="name key columns, or give a file of keys")


def _refuse_unknown(
    uow: UnitOfWork, catalog: CatalogName, keys: Mapping[str, FileKey], chosen: Collection[str]
) -> None:
    """Refuse a file of keys with tables that the metastore does not have: a misspelled table would get no key."""
    unchosen = {name: key for name, key in keys.items() if name not in chosen}
    known = {*_find_indexed(uow, catalog, EVERY_TABLE)} if unchosen else set[str]()
    refuse_lines(
        [f"line {key.line}: the metastore has no table {name}" for name, key in unchosen.items() if name not in known]
    )


def _build_wave(uow: UnitOfWork, kind: OperationKind, catalog: CatalogName, wanted: Wanted, tables: int) -> Wave:
    only = (
        {} if wanted.only is None else {name: value for name, value in asdict(wanted.only).items() if value is not None}
    )
    selection: dict[str, Any] = {"tables": list(wanted.tables)[:_NAMED]} if wanted.tables else {}
    selection |= {name: value.isoformat() if isinstance(value, datetime) else value for name, value in only.items()}
    return Wave(
        batch=BatchId(uuid4()),
        catalog=catalog,
        name=wanted.name or (", ".join(wanted.tables) or _describe_filter(selection))[:_NAME_LENGTH],
        kind=kind,
        selection=selection,
        tables=tables,
        created_at=uow.now(),
        stop_after=wanted.stop_after,
        failures_allowed=wanted.stop_after,
    )


def _describe_filter(selection: Mapping[str, Any]) -> str:
    """The filter as the command line writes it, such as `state=hive database=sales`."""
    texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in selection.items()}
    return " ".join(f"{name}={value}" for name, value in texts.items()) or "all tables"


def _choose_tables(uow: UnitOfWork, catalog: CatalogName, wanted: Wanted) -> tuple[list[str], dict[str, str]]:
    """Expand patterns and the filter to tables of the index that are not upgraded. Names stay as they are."""
    chosen: dict[str, None] = {}
    skipped: dict[str, str] = {}
    linked = {relation.hive_name: relation.name for relation in uow.relations.linked_to_hive(catalog)}
    if wanted.only is not None:
        matching = [name for name in _find_indexed(uow, catalog, wanted.only) if name not in linked]
        if not matching and not wanted.tables:
            raise NotFound("no Hive table matches the filter", hint="`firn hive migration --tables` lists all tables")
        chosen |= dict.fromkeys(matching)
    for pattern in wanted.tables:
        if not any(sign in pattern for sign in PATTERN):
            chosen[".".join(split_name(pattern))] = None
            continue
        only = HiveTableFilter(database=database_of(pattern))
        matching = [name for name in _find_indexed(uow, catalog, only) if fnmatchcase(name, pattern.lower())]
        if not matching:
            raise NotFound(f"no Hive table matches {pattern!r}", hint="`firn hive list --refresh` lists all tables")
        skipped |= {name: f"it is {linked[name]} already" for name in matching if name in linked}
        chosen |= dict.fromkeys(name for name in matching if name not in linked)
    return list(chosen), skipped


def _find_indexed(uow: UnitOfWork, catalog: CatalogName, only: HiveTableFilter) -> Iterator[str]:
    """Yield the names of all matching tables."""
    cursor: str | None = None
    while True:
        page = uow.hive.list(catalog, only, limit=_PAGE, cursor=cursor)
        yield from (table.full_name for table in page.items)
        cursor = page.next_cursor
        if cursor is None:
            return


def database_of(pattern: str) -> str | None:
    """The one database that a name or pattern is about; None for one about several."""
    database, dot, _ = pattern.partition(".")
    return database.lower() if dot and not any(sign in database for sign in PATTERN) else None


def _build_operation(
    uow: UnitOfWork, kind: OperationKind, catalog: CatalogName, properties: Mapping[str, str]
) -> Operation:
    now = uow.now()
    return Operation(
        id=_new_id(),
        kind=kind,
        catalog=catalog,
        target="",
        status=OperationStatus.RUNNING,
        created_at=now,
        updated_at=now,
        params={"key": None, "properties": dict(properties)},
        phase=WAITING,
        unit="files",
    )


def _new_id() -> OperationId:
    return OperationId(uuid4())


def _params(spec: KeySpec | None, operation: Operation) -> dict[str, Any]:
    return {**operation.params, "key": None if spec is None else spec.to_properties()}
