"""Requests for upgrades and checks: start one or many, pause, resume and cancel. `upgrade` carries them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any
from uuid import uuid4

from catalog.errors import Conflict, Invalid, NotFound
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Tables to upgrade, named `database.table` or by patterns; those named in `keys` get a key of their own."""

    tables: Sequence[str]
    key: KeySpec | None = None
    keys: Mapping[str, KeySpec | None] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The operations that one request started, and the skipped tables with the reasons."""

    batch: BatchId
    count: int
    skipped: Mapping[str, str]


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
        self.checks.index.metastore(catalog)  # Invalid when there is none
        keys = {".".join(split_name(name)): spec for name, spec in wanted.keys.items()}
        with self.database.reading() as uow:
            chosen, skipped = _choose_tables(uow, catalog, wanted.tables)
        if strange := keys.keys() - chosen - skipped.keys():
            raise Invalid(f"a key is given for {min(strange)}, which is not among the tables")
        batch, kind = BatchId(uuid4()), OperationKind.CHECK if wanted.dry_run else OperationKind.UPGRADE
        with self.database.writing() as uow:
            check_properties(uow, self.links, catalog, wanted.properties)
            if not wanted.dry_run:
                running = uow.operations.working_on(catalog, chosen)
                skipped |= {name: f"its {operation.kind} is under way" for name, operation in running.items()}
                chosen = [name for name in chosen if name not in running]
            new = _build_operation(uow, kind, catalog, wanted.properties)
            operations = [
                replace(new, id=_new_id(), target=name, batch=batch, params=_params(keys.get(name, wanted.key), new))
                for name in chosen
            ]
            uow.operations.add_all(operations)
        return Started(batch=batch, count=len(chosen), skipped=skipped)

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
        return self._move_all(catalog, batch, lambda all_of, now: all_of.resume_all(batch, now))

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


def _choose_tables(uow: UnitOfWork, catalog: CatalogName, patterns: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Expand patterns to matching Hive tables of the index that are not upgraded. Names stay as they are."""
    chosen: dict[str, None] = {}
    skipped: dict[str, str] = {}
    linked = {relation.hive_name: relation.name for relation in uow.relations.linked_to_hive(catalog)}
    for pattern in patterns:
        if not any(sign in pattern for sign in PATTERN):
            chosen[".".join(split_name(pattern))] = None
            continue
        matching = [name for name in _find_indexed(uow, catalog, pattern) if fnmatchcase(name, pattern.lower())]
        if not matching:
            raise NotFound(f"no Hive table matches {pattern!r}", hint="`firn hive list --refresh` lists all tables")
        skipped |= {name: f"it is {linked[name]} already" for name in matching if name in linked}
        chosen |= dict.fromkeys(name for name in matching if name not in linked)
    return list(chosen), skipped


def _find_indexed(uow: UnitOfWork, catalog: CatalogName, pattern: str) -> Iterator[str]:
    """Names in the pattern's database, or in all where that is a pattern itself."""
    database = database_of(pattern)
    cursor: str | None = None
    while True:
        page = uow.hive.list(catalog, database=database, limit=_PAGE, cursor=cursor)
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
