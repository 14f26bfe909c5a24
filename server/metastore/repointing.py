"""Repoints partitions or a table to other directories, and changes nothing else of them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

from hive_metastore.ttypes import (
    EnvironmentContext,
    NoSuchObjectException,
    Partition,
    StorageDescriptor,
    Table,
)

from catalog.errors import CommitUnknown, Conflict
from catalog.hive.baseline import ChangeSignals
from catalog.hive.model import PROVIDER
from catalog.hive.partition_names import format_partition_name
from catalog.ports.metastore import PartitionLocation, PartitionMove
from server.metastore.calls import HiveClient
from server.metastore.convert import partition_value, table_value

# Otherwise the metastore lists the directory and rewrites statistics and times.
_AS_SENT = EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"})


def describe_target(database: str, name: str, place: PartitionLocation) -> str:
    """Describe a partition or table for messages."""
    return f"partition {'/'.join(place.values)} of {database}.{name}" if place.values else f"{database}.{name}"


class Mover:
    """One move over one connection: read, change, and read the result."""

    def __init__(self, hive: HiveClient, database: str, name: str, place: PartitionLocation) -> None:
        self._hive, self._database, self._name, self._place = hive, database, name, place
        self._table: Table | None = None
        self._partition: Partition | None = None

    def read(self) -> None:
        """Read the current state; Conflict when the location is not the expected one."""
        self._table = self._hive.get_table(self._database, self._name)
        self._partition = self._read_partition() if self._place.values else None
        current = self._location()
        if current != self._place.location:
            target = describe_target(self._database, self._name, self._place)
            raise Conflict(f"{target} is {f'at {current}' if current else 'gone'}, not at {self._place.location}")

    def move(self, location: str, parameters: Mapping[str, str | None], *, columns_of_table: bool) -> None:
        """Send the change."""
        if not self._place.values:
            self._move_table(location, parameters)
        elif self._partition is None:
            assert self._table is not None
            self._hive.add_partition(_build_partition(self._table, self._place, location, parameters))
        else:
            self._partition.sd.location = location
            if columns_of_table and self._table is not None:
                self._partition.sd.cols = self._table.sd.cols
            self._partition.parameters = _apply_changes(self._partition.parameters, parameters)
            self._hive.alter_partition_with_environment_context(self._database, self._name, self._partition, _AS_SENT)

    def signals(self) -> ChangeSignals:
        """Read the change signals after the move."""
        if not self._place.values:
            table = table_value(self._hive.get_table(self._database, self._name))
            statistics = table.parameters.get("numFiles"), table.parameters.get("totalSize")
            return ChangeSignals(location=table.location, ddl_time=table.ddl_time, statistics=statistics)
        return _read_signals(self._hive.get_partition(self._database, self._name, list(self._place.values)))

    def _read_partition(self) -> Partition | None:
        try:
            return self._hive.get_partition(self._database, self._name, list(self._place.values))
        except NoSuchObjectException:
            return None

    def _location(self) -> str | None:
        if self._place.values:
            return None if self._partition is None else self._partition.sd.location
        return table_value(self._table).location

    def _move_table(self, location: str, parameters: Mapping[str, str | None]) -> None:
        table = self._table
        assert table is not None
        table.sd.location = location
        if PROVIDER in (table.parameters or {}):  # Spark reads its own tables where this says
            table.sd.serdeInfo.parameters = {**(table.sd.serdeInfo.parameters or {}), "path": location}
        table.parameters = _apply_changes(table.parameters, parameters)
        self._hive.alter_table_with_environment_context(self._database, self._name, table, _AS_SENT)


class Movers:
    """Moves of several partitions over one connection, one call per step; the metastore applies all or none."""

    def __init__(self, hive: HiveClient, database: str, name: str, moves: Sequence[PartitionMove]) -> None:
        self._hive, self._database, self._name, self._moves = hive, database, name, moves
        self._table: Table | None = None
        self._partitions: list[Partition] = []

    def read(self) -> None:
        """Read the current state; Conflict when a location is not the expected one."""
        self._table = self._hive.get_table(self._database, self._name)
        partitions = self._read_partitions()
        for move in self._moves:
            partition = partitions.get(move.place.values)
            current = None if partition is None else partition.sd.location
            if current != move.place.location:
                target = describe_target(self._database, self._name, move.place)
                raise Conflict(f"{target} is {f'at {current}' if current else 'gone'}, not at {move.place.location}")
        self._partitions = [partitions[move.place.values] for move in self._moves if move.place.values in partitions]

    def move(self, *, columns_of_table: bool) -> None:
        """Send the changes, which the metastore applies in one transaction."""
        assert self._table is not None
        if not self._partitions:
            new_partitions = [
                _build_partition(self._table, move.place, move.location, move.parameters) for move in self._moves
            ]
            self._hive.add_partitions(new_partitions)
            return
        for partition, move in zip(self._partitions, self._moves, strict=True):
            partition.sd.location = move.location
            if columns_of_table:
                partition.sd.cols = self._table.sd.cols
            partition.parameters = _apply_changes(partition.parameters, move.parameters)
        self._hive.alter_partitions_with_environment_context(self._database, self._name, self._partitions, _AS_SENT)

    def signals(self) -> list[ChangeSignals]:
        """Read the change signals after the moves; CommitUnknown when a moved partition is gone again."""
        partitions = self._read_partitions()
        lost = [move.place for move in self._moves if move.place.values not in partitions]
        if lost:
            raise CommitUnknown(f"{describe_target(self._database, self._name, lost[0])} was moved and is gone")
        return [_read_signals(partitions[move.place.values]) for move in self._moves]

    def _read_partitions(self) -> dict[tuple[str, ...], Partition]:
        assert self._table is not None
        columns = table_value(self._table).partition_columns
        names = [format_partition_name(columns, move.place.values) for move in self._moves]
        partitions = self._hive.get_partitions_by_names(self._database, self._name, names)
        return {tuple(partition.values): partition for partition in partitions}


def _read_signals(struct: Partition) -> ChangeSignals:
    partition = partition_value(struct)
    return ChangeSignals(
        location=partition.storage.location, ddl_time=partition.ddl_time, statistics=partition.statistics
    )


def _build_partition(
    table: Table, place: PartitionLocation, location: str, parameters: Mapping[str, str | None]
) -> Partition:
    descriptor: StorageDescriptor = copy.deepcopy(table.sd)
    descriptor.location = location
    return Partition(
        values=list(place.values),
        dbName=table.dbName,
        tableName=table.tableName,
        sd=descriptor,
        parameters=_apply_changes({}, parameters),
    )


def _apply_changes(before: Mapping[str, str] | None, changes: Mapping[str, str | None]) -> dict[str, str]:
    kept = {key: value for key, value in (before or {}).items() if key not in changes}
    return kept | {key: value for key, value in changes.items() if value is not None}
