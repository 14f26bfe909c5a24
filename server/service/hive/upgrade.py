"""Upgrade: a Hive table becomes an Iceberg table over its existing files, in place.

An operation with a journal. Before the server writes anything, the journal names the directory for new files. The last
step is one database transaction that adds the table, its baselines and the operation's end together. A crash before it
leaves the Hive table unchanged, and a directory that nothing refers to: the next try deletes it and starts again. An
upgrade never changes the Hive table itself.
"""

from __future__ import annotations

import secrets
import threading
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import TypeVar

from catalog.errors import CatalogError, Conflict, Invalid, NotFound
from catalog.files.data_file import DataFileEntry, FileFormat, FileStats, order_partition
from catalog.history.commit import UPGRADE
from catalog.hive.baseline import PartitionBaseline, build_first_baseline
from catalog.hive.link import HiveLink
from catalog.hive.listing import Subdirectories
from catalog.hive.mapping import PROPERTY as NAME_MAPPING
from catalog.hive.mapping import build_name_mapping
from catalog.hive.partition_names import to_partition_record
from catalog.iceberg.json import Json
from catalog.iceberg.table import apply_updates, current_schema, ref_snapshot_id
from catalog.jobs.operation import BLOCKED, ELIGIBLE, Operation
from catalog.keyed.partial import PARTIAL, wants_partial
from catalog.keyed.spec import INSERT_ONLY, MERGED_THROUGH, KeyScope, KeySpec
from catalog.names import RelationId, TableName
from catalog.ports.files import TableFiles
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import RelationKind
from firn.protocol.operations import OperationKind, OperationStatus
from server.service.access.caller import working_as
from server.service.hive.hive_state import HiveState, Unit, formats_of, join, list_units, read_state, split_name
from server.service.hive.key_count import CountedFiles, KeyCounter, describe_count
from server.service.hive.key_nulls import KeyNulls
from server.service.hive.operation_runner import OperationRunner, UpgradeStatus
from server.service.hive.table_index import HiveIndex
from server.service.hive.upgrade_attempt import LISTING, Canceled, Halted, Overtaken, Paused, UpgradeAttempt
from server.service.hive.upgrade_check import (
    Checks,
    Report,
    check_eligible,
    hive_schema,
    of_subdirectories,
    target_name,
)
from server.service.hive.upgrade_metadata import build_plain_metadata, make_definition
from server.service.tables.default_locations import make_default_location
from server.service.tables.keyed_metadata import build_base_metadata
from server.service.tables.keyed_tables import KeyedTables
from server.service.tables.namespaces import Namespaces
from server.service.tables.relations import NewTable
from server.service.tables.tables import TableDefinition, Tables

T = TypeVar("T")

REPORT_EVERY_SECONDS = 0.5
SETTLE_SECONDS = 1.1
SETTLE_TRIES = 12


class Ineligible(Exception):
    """A check stands in the way, as its `error` says."""

    def __init__(self, error: CatalogError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(slots=True, kw_only=True)
class _Tally:
    """The sums over all files, which are too many to keep."""

    nulls: KeyNulls
    files: int = 0
    rows: int = 0
    aliases: set[tuple[int, str]] = field(default_factory=set)
    digests: dict[str, array[int]] = field(default_factory=dict)
    """By unit, of its files in their order: all that is kept of each of them."""

    def add(self, unit: Unit, stats: FileStats) -> None:
        self.files += 1
        self.digests.setdefault(unit.name, array("Q")).append(stats.digest or 0)
        self.rows += stats.record_count
        self.aliases.update(stats.aliases)
        self.nulls.add(stats)


@dataclass(frozen=True)
class Upgrades:
    """Carries upgrades and checks out, as a background task: a crash only delays them."""

    database: Database
    namespaces: Namespaces
    tables: Tables
    keyed: KeyedTables
    index: HiveIndex
    checks: Checks
    files: TableFiles

    at_once: int
    halted: threading.Event
    counter: KeyCounter
    """Counts duplicate keys before an upgrade."""

    def activate(self, leads: Callable[[], bool] = lambda: True) -> UpgradeStatus:
        """Run all started upgrades, also those of a server that died. One that fails does not delay the others.

        Raises an ExceptionGroup at the end if an unexpected error leaves an upgrade to the next activation.
        """
        return OperationRunner(self.database, self.at_once, leads, self.halted, self._carry_out_unless_overtaken).all()

    def _carry_out_unless_overtaken(self, operation: Operation) -> bool | None:
        """Whether it has succeeded; None when it goes on later, or another server has gone on with it."""
        attempt = UpgradeAttempt(self.database, self.files, operation, self._new_root(operation), self.halted)
        try:
            return self._carry_out(attempt)
        except (Overtaken, Paused):
            attempt.give_up()
        except Halted:
            pass  # its journal tells the next server what is to be cleared away
        return None

    def _new_root(self, operation: Operation) -> str:
        with self.database.reading() as uow:
            warehouse = uow.catalogs.get(operation.catalog).warehouse
        database, name = split_name(operation.target)
        return make_default_location(warehouse, TableName((database,), name))

    def _carry_out(self, attempt: UpgradeAttempt) -> bool:
        """Whether it has succeeded. What cannot be known now, the operation's row tells the next activation."""
        try:
            try:
                attempt.begin()
                if attempt.operation.kind is OperationKind.CHECK:
                    self._check(attempt)
                else:
                    self._run(attempt)
            except Canceled:
                attempt.end(OperationStatus.CANCELED, "canceled", None)
                return False
            except Ineligible as refusal:
                attempt.end(OperationStatus.FAILED, refusal.error.message, refusal.error.hint, phase=BLOCKED)
                return False
        except CatalogError as error:
            attempt.end(OperationStatus.FAILED, error.message, error.hint)
            return False
        return True

    def _check(self, attempt: UpgradeAttempt) -> None:
        spec = _spec_of(attempt.operation)
        key = () if spec is None else spec.primary_key
        operation = attempt.operation
        report = self.checks.report(operation.catalog, operation.target, key, operation.params["properties"])
        uniqueness: Json = {}
        if spec is not None and operation.params.get("unique") and report.eligible:
            report, uniqueness = self._count_keys(attempt, report, spec)

        def note(uow: UnitOfWork) -> None:
            uow.hive.note_check(operation.catalog, operation.target, report.facts, report.own_blockers, uow.now())

        attempt.tell(ELIGIBLE if report.eligible else BLOCKED, {**report.to_json(), **uniqueness}, note)

    def _count_keys(self, attempt: UpgradeAttempt, report: Report, spec: KeySpec) -> tuple[Report, Json]:
        """Count the keys in the files as they are listed now; the report with the result as checks, and the result.

        The attempt's directory is removed before the check ends: if the server dies between, the next attempt does it.
        """
        operation, listed_at = attempt.operation, self._now()
        state = read_state(self.index.metastore(operation.catalog), *split_name(operation.target))
        settled = self._list_settled(attempt, state)
        columns = [*spec.primary_key]
        if spec.scope is KeyScope.PARTITION:
            columns += [c.name for c in state.table.partition_columns if c.name not in columns]
        try:
            files = self._register_for_count(attempt, state, settled)
            count = self.counter.count(attempt, files, columns)
        except Invalid as error:
            return report.with_uncounted_key(error.message), {"uniqueness": {"counted": False, "reason": error.message}}
        finally:
            attempt.give_up()
        now = read_state(self.index.metastore(operation.catalog), *split_name(operation.target))
        subdirectories = self.checks.subdirectories(operation.catalog, now, operation.params["properties"])
        changed = now.find_changed({unit.name: baseline for unit, baseline in settled}, self.files, subdirectories)
        result = {"counted": True, "listed_at": listed_at.isoformat(), "changed_meanwhile": len(changed)}
        checks = [*describe_count(count, columns)]
        return report.with_counted_key(checks, len(changed)), {"uniqueness": {**result, **count.to_json(columns)}}

    def _register_for_count(
        self, attempt: UpgradeAttempt, state: HiveState, settled: Sequence[tuple[Unit, PartitionBaseline]]
    ) -> CountedFiles:
        """Write metadata of the files into the attempt's directory, as an upgrade without a key and properties does."""
        schema = hive_schema(state.table)
        tally = _Tally(nulls=KeyNulls.of(state, None, schema))
        empty = self._build_empty(attempt, None, make_definition(state.table, schema, {}))
        metadata = self._register_files(
            attempt, empty, self._entries(attempt, state, schema, (), settled, tally), tally
        )
        return CountedFiles(
            name=attempt.operation.target,
            metadata_location=self.tables.metadata.write(attempt.root, 0, metadata),
            snapshot_id=ref_snapshot_id(metadata, "main"),
            rows=tally.rows,
            directories=[*state.directories_of(state.units)],
        )

    def _run(self, attempt: UpgradeAttempt) -> None:
        operation = attempt.operation
        state = read_state(self.index.metastore(operation.catalog), *split_name(operation.target))
        spec = _spec_of(operation)
        self._refuse_blocked(attempt, state, spec)
        schema = hive_schema(state.table)
        settled = self._list_settled(attempt, state)
        tally = _Tally(nulls=KeyNulls.of(state, spec, schema))
        empty = self._build_empty(attempt, spec, make_definition(state.table, schema, operation.params["properties"]))
        entries = self._entries(attempt, state, schema, tally.nulls.column_ids, settled, tally)
        try:
            metadata = self._register_files(attempt, empty, entries, tally)
        except NotFound as error:
            words = f"{operation.target} is being written: {error.message}, and was listed a moment ago"
            raise Conflict(words, hint="try again when its writers pause") from error
        tally.nulls.check(state, spec)
        attempt.step("adding the table", tally.files, tally.files)
        self._add(attempt, state, spec, metadata, tally, {unit.name: baseline for unit, baseline in settled})

    def _refuse_blocked(self, attempt: UpgradeAttempt, state: HiveState, spec: KeySpec | None) -> None:
        """Check by the metastore alone; listings and footers may show more problems later."""
        operation = attempt.operation
        key = spec.primary_key if spec else ()
        checks = self.checks.check_state(operation.catalog, state, key, operation.params["properties"])
        described = [check.to_json() for check in checks]
        attempt.step("checking", 0, 0, {"checks": described, "partitions": len(state.partitions)})
        try:
            check_eligible(checks)
        except CatalogError as error:
            raise Ineligible(error) from error

    def _list_settled(self, attempt: UpgradeAttempt, state: HiveState) -> list[tuple[Unit, PartitionBaseline]]:
        """All directories when no file in them can still be replaced by one that looks the same
        (docs/protocols.md, rule 3.7).
        """
        units, operation = state.units, attempt.operation
        subdirectories = self.checks.subdirectories(operation.catalog, state, operation.params["properties"])
        for _ in range(SETTLE_TRIES):
            listings = report_listing(attempt, list_units(self.files, units, subdirectories), len(units))
            settled = [(unit, build_first_baseline(unit.signals, listing)) for unit, listing in listings]
            nested = [unit.name or unit.location for unit, baseline in settled if baseline and baseline.subdirectories]
            if nested and subdirectories is Subdirectories.ASK:
                check = of_subdirectories(nested, subdirectories)
                attempt.step(LISTING, len(units), len(units), {"checks": [check.to_json()]})
                raise Ineligible(Invalid(check.message, hint=check.advice))
            listed_units = [(unit, baseline) for unit, baseline in settled if baseline is not None]
            if len(listed_units) == len(settled):
                return listed_units
            time.sleep(SETTLE_SECONDS)
        raise Conflict(
            f"{attempt.operation.target} is being written: its files change faster than they can be listed",
            hint="try again when its writers pause for a second",
        )

    def _entries(
        self,
        attempt: UpgradeAttempt,
        state: HiveState,
        schema: Json,
        nulls_of: Collection[int],
        settled: Sequence[tuple[Unit, PartitionBaseline]],
        tally: _Tally,
    ) -> Iterator[DataFileEntry]:
        """Yield every file with its statistics and its partition, in the order of the partitions."""
        columns = state.table.partition_columns
        parts = [(to_partition_record(columns, unit.values), unit, baseline) for unit, baseline in settled]
        parts.sort(key=lambda part: order_partition(part[0]))
        total = sum(len(baseline.files) for _, baseline in settled)
        size = sum(file.size for _, baseline in settled for file in baseline.files)
        attempt.step("reading footers", 0, total, {"files": total, "bytes": size})
        formats: dict[str, FileFormat] = {}  # of those that are being read: all would be too many

        def locations() -> Iterator[str]:
            for _, unit, baseline in parts:
                formats.update(formats_of(unit, (file.path for file in baseline.files)))
                yield from (join(unit.location, file.path) for file in baseline.files)

        stats = self.files.footers(schema, locations(), formats, nulls_of=nulls_of)
        reported_at = time.monotonic()
        for record, unit, baseline in parts:
            for _ in baseline.files:
                file_stats = next(stats)
                formats.pop(file_stats.location, None)
                tally.add(unit, file_stats)
                if time.monotonic() - reported_at > REPORT_EVERY_SECONDS:
                    reported_at = time.monotonic()
                    attempt.step("reading footers", tally.files, total)
                yield DataFileEntry(stats=file_stats, partition=record)

    def _build_empty(self, attempt: UpgradeAttempt, spec: KeySpec | None, definition: TableDefinition) -> Json:
        """The metadata of a table that nothing is in yet."""
        now_ms = self._now_ms()
        if spec:
            if wants_partial(definition.properties):
                raise Invalid(f"a table that is linked to Hive cannot have {PARTIAL}", hint="leave the property out")
            if definition.properties.get(INSERT_ONLY, "false") != "false":
                raise Invalid(f"a table that is linked to Hive cannot have {INSERT_ONLY}: Hive overwrites rows")
            return build_base_metadata(definition, spec, location=f"{attempt.root}/base", now_ms=now_ms)
        return build_plain_metadata(definition, location=attempt.root, now_ms=now_ms)

    def _register_files(
        self, attempt: UpgradeAttempt, empty: Json, entries: Iterator[DataFileEntry], tally: _Tally
    ) -> Json:
        """The metadata with a snapshot of these files, whose manifests are written while the footers are read."""
        summary = {"firn.reason": f"upgrade of {attempt.operation.target}"}
        summary |= {MERGED_THROUGH: "0"} if attempt.operation.params["key"] else {}
        now_ms, updates = self._now_ms(), list[Json]()
        if (first := next(entries, None)) is not None:
            added = self.files.write_snapshot(
                empty,
                chain([first], entries),
                (),
                snapshot_id=secrets.randbits(62) + 1,
                now_ms=now_ms,
                summary_extra=summary,
            )
            updates += added.updates()
        mapping = build_name_mapping(current_schema(empty), tally.aliases)
        updates.append({"action": "set-properties", "updates": {NAME_MAPPING: mapping}})
        return apply_updates(empty, updates, now_ms=now_ms, previous_location=None)

    def _now_ms(self) -> int:
        return int(self._now().timestamp() * 1000)

    def _now(self) -> datetime:
        with self.database.reading() as uow:
            return uow.now()

    def _add(
        self,
        attempt: UpgradeAttempt,
        state: HiveState,
        spec: KeySpec | None,
        metadata: Json,
        tally: _Tally,
        baselines: Mapping[str, PartitionBaseline],
    ) -> None:
        """The last step: the table, its ground and the operation's end, together."""
        name, operation = target_name(state.table), attempt.operation
        self.namespaces.ensure(operation.catalog, name.namespace)

        def finish(uow: UnitOfWork, relation_id: RelationId) -> None:
            now = uow.now()
            current = attempt.current(uow)
            stored = {
                unit: baseline.with_digests(tally.digests.get(unit, ())).to_json()
                for unit, baseline in baselines.items()
            }
            uow.baselines.put(relation_id, stored)
            uow.baselines.put_link(relation_id, HiveLink.of_table(state.table, now))
            counts = {"table": str(name), "files": tally.files, "rows": tally.rows}
            result = {**current.result, **counts}
            done = replace(current, status=OperationStatus.SUCCEEDED, phase="done", result=result, journal={})
            uow.operations.put(replace(done, done=current.total, ended_at=now, updated_at=now))
            uow.hive.note_failure(operation.catalog, operation.target, None)

        with working_as(UPGRADE):
            if spec is None:
                new = NewTable(name=name, kind=RelationKind.TABLE, metadata=metadata, hive_name=operation.target)
                self.tables.add(operation.catalog, [new], also=lambda uow: finish(uow, new.id))
                return
            root, hive_name = attempt.root, operation.target
            self.keyed.add(operation.catalog, name, spec, metadata, root=root, hive_name=hive_name, also=finish)


def report_listing(attempt: UpgradeAttempt, listings: Iterable[T], total: int) -> Iterator[T]:
    """Pass the listings on, report the progress to people, and stop if they ask for it."""
    attempt.step(LISTING, 0, total)
    reported_at = time.monotonic()
    for done, listing in enumerate(listings, start=1):
        yield listing
        if time.monotonic() - reported_at > REPORT_EVERY_SECONDS:
            reported_at = time.monotonic()
            attempt.step(LISTING, done, total)


def _spec_of(operation: Operation) -> KeySpec | None:
    """The key that the table is to have."""
    key = operation.params["key"]
    return None if key is None else KeySpec.from_properties(key)
