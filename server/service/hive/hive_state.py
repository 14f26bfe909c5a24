"""Both sides of a linked table: what the last sync saw of the Hive table, the table as it is now, and what has changed.

`LinkedTable` has the link and the baselines of the last sync. `HiveState` has the entries of the metastore now, and
compares them with baselines. A publish reads Hive's state three times, because Hive's users may write in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from catalog.errors import Invalid, NotFound, Unavailable
from catalog.files.data_file import FileFormat
from catalog.hive.baseline import ChangeSignals, PartitionBaseline, WatchedDirectory
from catalog.hive.columns import SchemaAuthority, SchemaPush
from catalog.hive.link import HiveLink
from catalog.hive.listing import Listing, Subdirectories
from catalog.hive.model import HivePartition, HiveStorage, HiveTable
from catalog.hive.partition_names import format_partition_name
from catalog.hive.path_prefix import find_innermost
from catalog.hive.publishing import find_published_sequence
from catalog.jobs.job import Job
from catalog.keyed.spec import KeySpec
from catalog.names import CatalogName
from catalog.planning.trigger_result import format_count
from catalog.policy.policy import Policy
from catalog.ports.files import TableFiles
from catalog.ports.metastore import Metastore, PartitionLocation
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.locations import normalize_location
from server.service.planning.policies import load_stored_policy

WHOLE_TABLE = ""
"""The name of an unpartitioned table's one unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A partition, or an unpartitioned table: one directory of files that belong together."""

    name: str
    values: tuple[str, ...]
    signals: ChangeSignals
    format: FileFormat = FileFormat.PARQUET

    @property
    def location(self) -> str:
        """The unit's directory."""
        return self.signals.location

    @property
    def place(self) -> PartitionLocation:
        """The unit's entry in the metastore."""
        return PartitionLocation(values=self.values, location=self.location)


@dataclass(frozen=True, kw_only=True)
class HiveState:
    """A Hive table and its partitions, as the metastore has them."""

    table: HiveTable
    partitions: Sequence[HivePartition]

    @cached_property
    def units(self) -> list[Unit]:
        """The partitions; for a table without partitions, the table itself."""
        if not self.table.partition_columns:
            statistics = self.table.parameters.get("numFiles"), self.table.parameters.get("totalSize")
            location = self.table.location
            signals = ChangeSignals(location=location, ddl_time=self.table.ddl_time, statistics=statistics)
            return [Unit(name=WHOLE_TABLE, values=(), signals=signals, format=self._format(self.table.storage))]
        return [self._unit(partition) for partition in self.partitions]

    def directories_of(self, units: Iterable[Unit]) -> set[str]:
        """The directories that contain these units: the table's own, and those of units outside of it."""
        inside = f"{self.table.location.rstrip('/')}/"
        locations = [unit.location for unit in units if unit.location]
        elsewhere = {location for location in locations if not location.startswith(inside) or "/.." in location}
        return elsewhere | ({self.table.location} if locations and self.table.location else set())

    def unit_around(self, place: str) -> Unit | None:
        """Find the innermost unit whose directory contains a location."""
        around = find_innermost(normalize_location(place), self._units_at)
        return None if around is None else self._units_at[around]

    def find_changed(
        self, baselines: Mapping[str, PartitionBaseline], files: TableFiles, subdirectories: Subdirectories
    ) -> set[str]:
        """Find the partitions that Hive has dropped, created, moved or written to since their baselines.

        The state has to contain exactly these partitions. The method lists their directories.
        """
        signals = {unit.name: unit.signals for unit in self.units}
        moved = find_moved(baselines, signals)
        in_place = [name for name in baselines if name not in moved and name in signals]
        locations = [baselines[name].location for name in in_place]
        listings = zip(
            in_place, files.listings(locations, recursive=subdirectories is Subdirectories.READ), strict=True
        )
        return moved | {name for name, listing in listings if is_written_to(baselines[name], listing, subdirectories)}

    @cached_property
    def _units_at(self) -> dict[str, Unit]:
        return {normalize_location(unit.location): unit for unit in self.units if unit.location}

    def _unit(self, partition: HivePartition) -> Unit:
        return Unit(
            name=format_partition_name(self.table.partition_columns, partition.values),
            values=partition.values,
            signals=ChangeSignals(
                location=partition.storage.location, ddl_time=partition.ddl_time, statistics=partition.statistics
            ),
            format=self._format(partition.storage),
        )

    def _format(self, storage: HiveStorage) -> FileFormat:
        """The format. A filter or blocker stops units of other formats before the sync reads their files."""
        return self.table.format_of(storage) or FileFormat.PARQUET


@dataclass(frozen=True, slots=True, kw_only=True)
class GracePeriods:
    """Time limits for Hive-side writers. A plain table that was never published needs none."""

    overwrite_ns: int = 0
    """The longest duration of an overwrite: files that come into a partition replace those that left it."""
    watch_ns: int = 0
    """The longest time for which a writer may use a directory that a publish has replaced."""

    def is_over(self, directory: WatchedDirectory, now_ns: int) -> bool:
        """Whether no writer can use a superseded directory any more."""
        return now_ns - directory.since_ns > self.watch_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedTable:
    """A linked table with its link and baselines, read in one transaction."""

    relation: Relation
    target: Relation
    """The relation that commits change: the table itself, or its base store."""
    baselines: dict[str, PartitionBaseline]
    link: HiveLink
    busy: Job | None
    when: GracePeriods
    spec: KeySpec | None = None
    """The key of the rows; None for a plain table."""
    decides: SchemaAuthority = SchemaAuthority.ASK
    gives: SchemaPush = SchemaPush.NONE
    overwrite_wins: bool = False
    """Whether a plain table drops its own changes in partitions that Hive has changed too."""
    trusts: bool = False
    """Whether a sync adds Hive's new files to base unread, because their keys are new."""
    subdirectories: Subdirectories = Subdirectories.ASK
    """Whether files in sub-directories count."""

    @property
    def needed(self) -> frozenset[str]:
        """The columns that the table must not lose."""
        if self.spec is None:
            return frozenset()
        return frozenset([*self.spec.primary_key, *([self.spec.sequence_field] if self.spec.sequence_field else [])])

    @property
    def published_through(self) -> int:
        """The change sequence that all partitions of Hive contain."""
        return find_published_sequence(self.baselines.values(), self.link.published_through)

    @property
    def is_published(self) -> bool:
        """Whether the table was ever published."""
        return self.link.published_at is not None

    @property
    def has_open_publish(self) -> bool:
        """Whether the metastore may not point to the files of the last publish yet."""
        return any(baseline.publishing is not None for baseline in self.baselines.values())

    @property
    def is_keyed(self) -> bool:
        """Whether a sync has to read rows."""
        return self.relation.kind is RelationKind.KEYED


def find_linked_relation(uow: UnitOfWork, catalog: CatalogName, full_name: str) -> Relation:
    """Find the table that was upgraded from a Hive table. Raises NotFound without one."""
    uow.catalogs.get(catalog)
    hive_name = ".".join(split_name(full_name))
    relation = uow.relations.of_hive(catalog, hive_name)
    if relation is None:
        raise NotFound(
            f"{catalog} has no table over {hive_name}, because the Hive table is not upgraded",
            hint=f"upgrade it: firn hive upgrade {hive_name}; `firn hive list` shows the upgraded ones",
        )
    return relation


def load_linked_table(uow: UnitOfWork, relation: Relation) -> LinkedTable:
    """Load the state of a linked table. Raises NotFound if the table is not linked."""
    link = uow.baselines.link(relation.id)
    if link is None:
        raise NotFound(f"{relation.name} is not linked to a Hive table")
    keyed = uow.keyed.get(relation.id) if relation.kind is RelationKind.KEYED else None
    policy = load_stored_policy(uow, relation)
    return LinkedTable(
        relation=relation,
        target=relation if keyed is None else uow.relations.get(keyed.base_id),
        baselines={unit: PartitionBaseline.from_json(stored) for unit, stored in uow.baselines.of(relation.id).items()},
        link=link,
        busy=uow.jobs.active_of(relation.id),
        when=GracePeriods() if keyed is None and link.published_at is None else _load_grace_periods(policy),
        spec=None if keyed is None else keyed.spec,
        decides=SchemaAuthority(policy["firn.hive.schema-conflict"]),
        gives=SchemaPush(policy["firn.hive.schema-push"]),
        overwrite_wins=keyed is None and policy["firn.hive.overwrite-wins"],
        trusts=keyed is not None and policy["firn.hive.keyed-sync"] == "append-without-check",
        subdirectories=Subdirectories(policy["firn.hive.subdirectories"]),
    )


def _load_grace_periods(policy: Policy) -> GracePeriods:
    lasts: timedelta = policy["firn.hive.overwrite-window"]
    watch: timedelta = policy["firn.hive.superseded-dir-grace"]
    tick = timedelta(microseconds=1)
    return GracePeriods(overwrite_ns=lasts // tick * 1000, watch_ns=watch // tick * 1000)


def split_name(full_name: str) -> tuple[str, str]:
    """Split `database.table` into its parts, in Hive's lower case. Raises Invalid for other texts."""
    database, dot, name = full_name.partition(".")
    if not dot or not database or not name or "." in name:
        raise Invalid(f"{full_name!r} is no Hive table", hint="write it as DATABASE.TABLE, for example default.flights")
    return database.lower(), name.lower()


def read_state(metastore: Metastore, database: str, name: str) -> HiveState:
    """Read a table and all its partitions. Raises NotFound without the table, Unavailable without the metastore."""
    table = metastore.table(database, name)
    if not table.partition_columns:
        return HiveState(table=table, partitions=())
    names = metastore.partition_names(database, name)
    return HiveState(table=table, partitions=metastore.partitions(database, name, names))


def read_some(metastore: Metastore, database: str, name: str, partitions: Sequence[str]) -> HiveState:
    """Read a table and those of the named partitions that exist. Raises the errors of `read_state`."""
    table = metastore.table(database, name)
    if not table.partition_columns:
        return HiveState(table=table, partitions=())
    return HiveState(table=table, partitions=metastore.partitions(database, name, partitions))


def list_units(
    files: TableFiles, units: Sequence[Unit], subdirectories: Subdirectories
) -> Iterator[tuple[Unit, Listing]]:
    """List the files in the units' directories, in the order of the units."""
    recursive = subdirectories is Subdirectories.READ
    return zip(units, files.listings([unit.location for unit in units], recursive=recursive), strict=True)


def formats_of(unit: Unit, paths: Iterable[str]) -> dict[str, FileFormat]:
    """The formats of a unit's files by location; empty if they are Parquet."""
    if unit.format is FileFormat.PARQUET:
        return {}
    return {join(unit.location, path): unit.format for path in paths}


def join(directory: str, path: str) -> str:
    """Join a directory and a path below it."""
    return f"{directory.rstrip('/')}/{path}"


def find_moved(baselines: Mapping[str, PartitionBaseline], signals: Mapping[str, ChangeSignals]) -> set[str]:
    """Find partitions that Hive has dropped, made or moved since their baselines."""
    created_or_dropped = {name for name, baseline in baselines.items() if baseline.is_dropped == (name in signals)}
    moved = {name for name, now in signals.items() if now.location != baselines[name].location}
    return created_or_dropped | moved


def is_written_to(baseline: PartitionBaseline, listing: Listing, subdirectories: Subdirectories) -> bool:
    """Whether Hive has written to a directory since the last sync.

    A sync could take over new files after the metastore is repointed, but until then Hive's readers would not see
    them. The same holds for a new sub-directory as long as the policy does not say whether sub-directories count.
    """
    present = {file.path: file for file in listing.files}
    synced = {file.path: file for file in baseline.files}
    if present.keys() != synced.keys() or not all(synced[path].same_as(file) for path, file in present.items()):
        return True
    new = set(listing.subdirectories) - set(baseline.subdirectories)
    return subdirectories is Subdirectories.ASK and bool(new)


@contextmanager
def locked(metastore: Metastore, database: str, name: str) -> Iterator[None]:
    """Lock a whole table while its entry is altered, if the metastore has locks, as Hive does for its ALTER TABLE.

    Unavailable while others hold a lock on any of it.
    """
    with metastore.lock(database, name, [WHOLE_TABLE]) as lock:
        if lock.busy:
            raise Unavailable(f"Firn has not altered {database}.{name}: {explain_busy(lock.busy)}")
        yield


def explain_busy(busy: Mapping[str, str]) -> str:
    """Explain who has locked how many partitions."""
    partitions = format_count(len(busy), "partition") if WHOLE_TABLE not in busy else "the table"
    return f"others have locked {partitions} in the metastore: {next(iter(busy.values()))}"
