"""A Hive table as it is now: its entry in the metastore, its directories, and its lock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from catalog.errors import Invalid, Unavailable
from catalog.files.data_file import FileFormat
from catalog.hive.baseline import ChangeSignals, PartitionBaseline
from catalog.hive.listing import Listing, Subdirectories
from catalog.hive.model import HivePartition, HiveStorage, HiveTable
from catalog.hive.partition_names import format_partition_name
from catalog.hive.path_prefix import find_innermost
from catalog.planning.trigger_result import format_count
from catalog.ports.files import TableFiles
from catalog.ports.metastore import Metastore
from firn.protocol.locations import normalize_location

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
