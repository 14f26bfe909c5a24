"""The report of the check before an upgrade: facts and problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType

from catalog.errors import AlreadyExists, CatalogError, Invalid
from catalog.hive.conversion import find_conversion_blockers
from catalog.hive.key_suggestions import (
    MOST_SAMPLED,
    DisprovedKey,
    KeyFacts,
    KeySuggestion,
    RankedKeys,
    RowSample,
    describe_support,
    find_reason_against,
    rank_keys,
    score_keys,
)
from catalog.hive.listing import Subdirectories
from catalog.hive.model import HiveColumn, HiveTable
from catalog.hive.table_index import IndexedBlocker, TableFacts
from catalog.hive.types import Named, UnsupportedType, iceberg_fields, parse_type
from catalog.hive.upgrade_check import UpgradeBlocker, find_blockers, find_key_blockers, find_upgrade_notes
from catalog.iceberg.json import Json
from catalog.locations.location_rule import PUBLISH_LOCATION, PUBLISHED
from catalog.names import CatalogName, TableName
from catalog.policy.policy import merge_layers
from catalog.ports.files import TableFiles
from catalog.ports.store import Database
from server.service.hive.detect_changes import explain_own_directory
from server.service.hive.hive_state import HiveState, list_units, read_state, split_name
from server.service.hive.key_evidence import FileSampler, RowSampler
from server.service.hive.publish_locations import NEARER, WritersReach
from server.service.hive.publisher import Publishers, advise_on_publisher, explain_other_publisher
from server.service.hive.table_index import HiveIndex, format_name, parse_statistic, read_facts
from server.service.locations.location_rule import find_hive_tables_inside
from server.service.planning.policies import load_policy_layers

_OF_THE_REQUEST = ("upgraded", "key_unknown", "key_type", "key_null", "key_duplicates")
_COUNT_BY_SPARK = "`firn hive upgrade --unique` upgrades the table, and counts with Spark."
_ON_COUNTS = {
    "key_null": "Choose another key, or remove the rows first.",
    "key_duplicates": (
        "Choose other key columns, or remove the rows. Or upgrade the table, and `firn table resolve-keys` keeps one "
        "row of each key."
    ),
}
_ON_SAMPLED_REPEATS = "Choose other key columns. `firn hive check --unique` counts all rows, and shows some keys."
_UNFIT = ("float", "double", "binary", "char")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One thing that was looked at: `ok`, `warn` with advice, or `blocked` with what to do."""

    code: str
    status: str
    message: str
    advice: str = ""

    def to_json(self) -> Json:
        """As an operation keeps it."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The facts and problems that an upgrade would meet."""

    table: HiveTable
    target: TableName
    format: str
    partitions: int
    files: int
    bytes: int
    candidates: tuple[str, ...]
    """The columns that may be in a key: values of other types have no exact equality."""
    key_suggestions: tuple[KeySuggestion, ...]
    disproved_keys: tuple[DisprovedKey, ...]
    checks: tuple[CheckResult, ...]
    convertible: bool
    """Whether Spark could read its rows and write them into a table of their own instead."""

    facts: TableFacts
    """What the table index keeps of the check."""

    @property
    def own_blockers(self) -> list[IndexedBlocker]:
        """The blockers of the table itself. Others depend on the key that somebody asked for, or end by themselves."""
        return [
            IndexedBlocker(code=check.code, message=check.message, advice=check.advice)
            for check in self.checks
            if check.status == "blocked" and check.code not in _OF_THE_REQUEST
        ]

    def with_counted_key(self, results: Iterable[tuple[str, str, str]], changed: int) -> Report:
        """The report with the results of a count of the keys, instead of the note that nobody has counted them."""
        checks = [
            CheckResult(code=code, status=status, message=message, advice=_ON_COUNTS.get(code, ""))
            for code, status, message in results
        ]
        if changed:
            many = "1 partition has" if changed == 1 else f"{changed:,} partitions have"
            message = f"{many} changed since the files were listed: the count does not cover these changes"
            checks.append(CheckResult(code="key_changed", status="warn", message=message, advice="Count again."))
        return replace(self, checks=(*(check for check in self.checks if check.code != "key"), *checks))

    def with_uncounted_key(self, reason: str) -> Report:
        """The report of a check that could not count the keys."""
        message = f"the keys were not counted: {reason}"
        check = CheckResult(code="key_uncounted", status="warn", message=message, advice=_COUNT_BY_SPARK)
        return replace(self, checks=(*(check for check in self.checks if check.code != "key"), check))

    @property
    def eligible(self) -> bool:
        """Whether the upgrade may begin."""
        return not any(check.status == "blocked" for check in self.checks)

    def to_json(self) -> Json:
        """As an operation keeps it: what people decide by."""
        return {
            "format": self.format,
            "partitions": self.partitions,
            "files": self.files,
            "bytes": self.bytes,
            "primary_key_candidates": list(self.candidates),
            "key_suggestions": [asdict(suggestion) for suggestion in self.key_suggestions],
            "disproved_keys": [asdict(key) for key in self.disproved_keys],
            "columns": [column.name for column in self.table.columns],
            "checks": [check.to_json() for check in self.checks],
        }


@dataclass(frozen=True)
class Checks:
    """Pre-flight reports; nothing is changed."""

    database: Database
    index: HiveIndex
    files: TableFiles
    reach: WritersReach
    row_sampler: RowSampler

    def report(
        self,
        catalog: CatalogName,
        full_name: str,
        primary_key: Sequence[str],
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> Report:
        """Check an upgrade with this key and these properties.

        Raises NotFound without the Hive table, Unavailable if its metastore does not answer.
        """
        state = read_state(self.index.metastore(catalog), *split_name(full_name))
        subdirectories = self.subdirectories(catalog, state, properties)
        blockers = _blockers(state, primary_key, subdirectories)
        checks = [blocked(blocker) for blocker in blockers]
        files = size = 0
        sampler = FileSampler()
        if not any(blocker.code in ("view", "iceberg") for blocker in blockers):
            files, size, message = self._files(state, subdirectories, sampler)
            checks.extend(message)
        candidates = [column.name for column in all_columns(state.table) if _may_be_key(column)]
        keys, sample = RankedKeys(), list[CheckResult]()
        if not blockers:
            keys, sample = self._rank_keys(catalog, state, candidates, sampler, primary_key)
        checks.extend(self._place_checks(catalog, state, subdirectories))
        checks.extend(
            CheckResult(code="notice", status="warn", message=message) for message in find_upgrade_notes(state.table)
        )
        checks.extend(self._reach_checks(catalog, state, properties))
        checks.extend(self._name_checks(catalog, state))
        return Report(
            table=state.table,
            target=target_name(state.table),
            format=format_name(state.table),
            partitions=len(state.partitions),
            files=files,
            bytes=size,
            candidates=tuple(candidates),
            key_suggestions=keys.suggestions,
            disproved_keys=keys.disproved,
            checks=(*checks, *_list_passed(state, blockers, primary_key), *sample),
            convertible=not find_conversion_blockers(state.table, state.partitions),
            facts=_read_facts(state, files, size),
        )

    def check_state(
        self,
        catalog: CatalogName,
        state: HiveState,
        primary_key: Sequence[str],
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> list[CheckResult]:
        """Check by the metastore alone, without listing directories."""
        subdirectories = self.subdirectories(catalog, state, properties)
        checks = [blocked(blocker) for blocker in _blockers(state, primary_key, subdirectories)]
        checks += self._place_checks(catalog, state, subdirectories)
        notes = [CheckResult(code="notice", status="warn", message=note) for note in find_upgrade_notes(state.table)]
        return [*checks, *notes, *self._reach_checks(catalog, state, properties), *self._name_checks(catalog, state)]

    def subdirectories(self, catalog: CatalogName, state: HiveState, properties: Mapping[str, str]) -> Subdirectories:
        """Whether files in sub-directories would count in a table with these properties."""
        with self.database.reading() as uow:
            layers = load_policy_layers(uow, catalog, target_name(state.table).namespace)
        return Subdirectories(merge_layers([*layers, ("table", properties)])["firn.hive.subdirectories"])

    def _rank_keys(
        self,
        catalog: CatalogName,
        state: HiveState,
        candidates: Sequence[str],
        sampler: FileSampler,
        primary_key: Sequence[str],
    ) -> tuple[RankedKeys, list[CheckResult]]:
        """The ranked keys, and what the sampled rows say of the key that the request asks for."""
        table, declared = state.table, list[str]()
        with suppress(CatalogError):  # some metastores tell nobody of constraints
            declared = self.index.metastore(catalog).primary_key(table.database, table.name)
        partition_columns = [column.name for column in table.partition_columns]
        facts = KeyFacts(
            table=table.name,
            candidates=candidates,
            partition_columns=partition_columns,
            declared=declared,
            samples=sampler.read(self.files, hive_schema(table)),
        )
        scored = score_keys(facts)
        keys = [entry.suggestion.columns for entry in scored[:MOST_SAMPLED]]
        asked = [(*primary_key,)] if primary_key else []
        samples = self.row_sampler.sample(
            table.full_name, sampler.readable, partition_columns, [*dict.fromkeys([*keys, *asked])]
        )
        return rank_keys(scored, samples), _describe_sample(primary_key, samples.get((*primary_key,)))

    def _files(
        self, state: HiveState, subdirectories: Subdirectories, sampler: FileSampler
    ) -> tuple[int, int, list[CheckResult]]:
        files = size = 0
        nested: list[str] = []
        for unit, listing in list_units(self.files, state.units, subdirectories):
            sampler.add(unit, listing)
            files += len(listing.files)
            size += sum(file.size for file in listing.files)
            nested += [unit.name or unit.location] if listing.subdirectories or listing.below else []
        return files, size, [of_subdirectories(nested, subdirectories)] if nested else []

    def _place_checks(
        self, catalog: CatalogName, state: HiveState, subdirectories: Subdirectories
    ) -> list[CheckResult]:
        """Whether Firn would write below a directory whose every file counts, or Hive reads another table's files."""
        reads_below = subdirectories is Subdirectories.READ
        with self.database.reading() as uow:
            directories = state.directories_of(state.units)
            others = find_hive_tables_inside(uow, catalog, state.table.full_name, directories, below=reads_below)
        if others:
            message = f"{min(others)} lies in or around the directory of another table of Firn's"
            advice = "Upgrade a Hive table whose directories are its own."
            return [CheckResult(code="shared_location", status="blocked", message=message, advice=advice)]
        if subdirectories is not Subdirectories.READ:
            return []
        with self.database.reading() as uow:
            warehouse = uow.catalogs.get(catalog).warehouse
        if (around := state.unit_around(warehouse)) is None:
            return []
        message = explain_own_directory(around, warehouse)
        advice = "Use a catalog whose warehouse lies elsewhere, or let sub-directories be ignored."
        return [CheckResult(code="shared_location", status="blocked", message=message, advice=advice)]

    def _reach_checks(self, catalog: CatalogName, state: HiveState, properties: Mapping[str, str]) -> list[CheckResult]:
        """Whether a publish will be refused because of where the warehouse lies."""
        with self.database.reading() as uow:
            layers = load_policy_layers(uow, catalog, target_name(state.table).namespace)
            warehouse = uow.catalogs.get(catalog).warehouse
        configured = merge_layers([*layers, ("table", properties)])[PUBLISH_LOCATION]
        barrier = self.reach.find_barrier(state.table.location, configured or f"{warehouse}/{PUBLISHED}")
        if barrier is None:
            return []
        advice = f"{NEARER[0].upper()}{NEARER[1:]}, or the server refuses to publish."
        return [CheckResult(code="publish", status="warn", message=barrier, advice=advice)]

    def _name_checks(self, catalog: CatalogName, state: HiveState) -> list[CheckResult]:
        full_name = state.table.full_name
        with self.database.reading() as uow:
            own = uow.catalogs.get(catalog)
            beside = [catalog.name for catalog in uow.catalogs.list() if catalog.metastore_uri == own.metastore_uri]
            linked = [(name, relation) for name in beside if (relation := uow.relations.of_hive(name, full_name))]
            existing = uow.relations.find(catalog, target_name(state.table))
        if linked:
            where, relation = linked[0]
            message = f"{full_name} has been upgraded already: it is {where}.{relation.name}"
            advice = (
                "Nothing is to be done." if where == catalog else "Two tables over one would undo each other's work."
            )
            return [CheckResult(code="upgraded", status="blocked", message=message, advice=advice)]
        if (other := Publishers(self.database, self.index).other(state.table)) is not None:
            message, advice = explain_other_publisher(state.table, other), advise_on_publisher(state.table)
            return [CheckResult(code="upgraded_elsewhere", status="blocked", message=message, advice=advice)]
        if existing is None:
            return []
        message = f"catalog {catalog} has a {existing.kind} named {existing.name} already"
        return [CheckResult(code="name", status="blocked", message=message, advice="Rename or drop that one first.")]


def _describe_sample(primary_key: Sequence[str], sample: RowSample | None) -> list[CheckResult]:
    """The check of the key in a sample of rows; none if no rows were read."""
    if sample is None or sample.rows < 2:
        return []
    key = f"({', '.join(primary_key)})"
    if (reason := find_reason_against(sample)) is None:
        return [CheckResult(code="key_sample", status="ok", message=f"{key} has {describe_support(sample)}")]
    return [
        CheckResult(code="key_sample", status="warn", message=f"{key} is no key: {reason}", advice=_ON_SAMPLED_REPEATS)
    ]


def _read_facts(state: HiveState, files: int, size: int) -> TableFacts:
    """The counted files and bytes, and what Hive's statistics say of the rows and of the last write."""
    of_table = read_facts(state.table)
    if not state.table.partition_columns:
        return TableFacts(partitions=0, files=files, bytes=size).or_else(of_table)
    rows = [parse_statistic(partition.parameters.get("numRows")) for partition in state.partitions]
    known = [number for number in rows if number is not None]
    times = [of_table.last_write, *(partition.ddl_time for partition in state.partitions)]
    return TableFacts(
        partitions=len(state.partitions),
        files=files,
        bytes=size,
        rows=sum(known) if len(known) == len(rows) else of_table.rows,
        last_write=max((time for time in times if time is not None), default=None),
        writer=of_table.writer,
    )


def of_subdirectories(nested: Sequence[str], subdirectories: Subdirectories) -> CheckResult:
    """The check of partitions whose directories contain those of other partitions."""
    many = f"{len(nested):,} directories hold sub-directories, for example {nested[0]}"
    problem = many if len(nested) > 1 else f"directory {nested[0]} holds sub-directories"
    if subdirectories is Subdirectories.ASK:
        advice = (
            "Say what Hive's readers do with the files in them, here or by `firn hive upgrade --subdirectories read` "
            "(or `ignore`); or set `firn.hive.subdirectories` for the database or the catalog."
        )
        message = f"{problem}, and it is not decided whether their files count"
        return CheckResult(code="subdirectories", status="blocked", message=message, advice=advice)
    count = "count" if subdirectories is Subdirectories.READ else "do not count"
    message = f"{problem}: the files in them {count} (firn.hive.subdirectories)"
    return CheckResult(code="subdirectories", status="warn", message=message)


def check_eligible(checks: Sequence[CheckResult]) -> None:
    """Invalid with the first blocker's words, AlreadyExists for a table that is upgraded."""
    for check in checks:
        if check.status == "blocked":
            kind = AlreadyExists if check.code in ("upgraded", "upgraded_elsewhere", "name") else Invalid
            raise kind(check.message, hint=check.advice or None)


def target_name(table: HiveTable) -> TableName:
    """The same name in the catalog."""
    return TableName((table.database,), table.name)


def all_columns(table: HiveTable) -> tuple[HiveColumn, ...]:
    """Columns in files, then partition columns."""
    return (*table.columns, *table.partition_columns)


def hive_schema(table: HiveTable) -> Json:
    """The Iceberg schema of a Hive table: columns in files first, then partition columns."""
    counter = iter(range(1, 1_000_000))
    return {"type": "struct", "schema-id": 0, "fields": iceberg_fields(all_columns(table), lambda: next(counter))}


def _may_be_key(column: HiveColumn) -> bool:
    try:
        kind = parse_type(column.type)
    except UnsupportedType:
        return False
    return isinstance(kind, Named) and kind.name not in _UNFIT


def _blockers(state: HiveState, primary_key: Sequence[str], subdirectories: Subdirectories) -> list[UpgradeBlocker]:
    blockers = find_blockers(state.table, state.partitions, reads_below=subdirectories is Subdirectories.READ)
    return [*blockers, *find_key_blockers(state.table, state.partitions, primary_key)]


def blocked(blocker: UpgradeBlocker) -> CheckResult:
    """A blocker as one of the checks."""
    return CheckResult(code=str(blocker.code), status="blocked", message=blocker.message, advice=blocker.advice)


def _list_passed(state: HiveState, blockers: Sequence[UpgradeBlocker], primary_key: Sequence[str]) -> list[CheckResult]:
    """Describe the checks that passed."""
    if blockers:
        return []
    formats = ", ".join(sorted({unit.format.lower() for unit in state.units})) or "there are none"
    passed = [
        CheckResult(code="format", status="ok", message=f"all files are in formats that Iceberg reads: {formats}"),
        CheckResult(
            code="types", status="ok", message=f"all {len(all_columns(state.table))} columns have Iceberg types"
        ),
        CheckResult(code="layout", status="ok", message="not transactional, not bucketed, no shared directories"),
    ]
    if primary_key:
        message = f"({', '.join(primary_key)}) exists and can be compared; nulls are looked for in every file's footer"
        advice = "Duplicate keys are counted only on request, because that reads every row: `firn hive check --unique`."
        passed.append(CheckResult(code="key", status="warn", message=message, advice=advice))
    return passed
