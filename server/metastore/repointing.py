"""Partitions or a table are pointed at other directories, all else of them left as it is."""

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


def shown(database: str, name: str, place: PartitionLocation) -> str:
    """The place in words."""
    return f"partition {'/'.join(place.values)} of {database}.{name}" if place.values else f"{database}.{name}"


class Mover:
    """One move over one connection: read, change, read what became of it."""

    def __init__(self, hive: HiveClient, database: str, name: str, place: PartitionLocation) -> None:
        self._hive, self._database, self._name, self._place = hive, database, name, place
        self._table: Table | None = None
        self._partition: Partition | None = None

    def read(self) -> None:
        """What is there now; Conflict when it is not what was expected."""
        self._table = self._hive.get_table(self._database, self._name)
        self._partition = self._found() if self._place.values else None
        there = self._location()
        if there != self._place.location:
            words = shown(self._database, self._name, self._place)
            raise Conflict(f"{words} is {f'at {there}' if there else 'gone'}, not at {self._place.location}")

    def move(self, location: str, parameters: Mapping[str, str | None], *, columns_of_table: bool) -> None:
        """Send the change."""
        if not self._place.values:
            self._move_table(location, parameters)
        elif self._partition is None:
            assert self._table is not None
            self._hive.add_partition(_made(self._table, self._place, location, parameters))
        else:
            self._partition.sd.location = location
            if columns_of_table and self._table is not None:
                self._partition.sd.cols = self._table.sd.cols
            self._partition.parameters = _changed(self._partition.parameters, parameters)
            self._hive.alter_partition_with_environment_context(self._database, self._name, self._partition, _AS_SENT)

    def signals(self) -> ChangeSignals:
        """What the metastore says of it now."""
        if not self._place.values:
            table = table_value(self._hive.get_table(self._database, self._name))
            statistics = table.parameters.get("numFiles"), table.parameters.get("totalSize")
            return ChangeSignals(location=table.location, ddl_time=table.ddl_time, statistics=statistics)
        return _signals(self._hive.get_partition(self._database, self._name, list(self._place.values)))

    def _found(self) -> Partition | None:
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
        table.parameters = _changed(table.parameters, parameters)
        self._hive.alter_table_with_environment_context(self._database, self._name, table, _AS_SENT)


class Movers:
    """Moves of several partitions over one connection, each step one call; the metastore makes all of them or none."""

    def __init__(self, hive: HiveClient, database: str, name: str, moves: Sequence[PartitionMove]) -> None:
        self._hive, self._database, self._name, self._moves = hive, database, name, moves
        self._table: Table | None = None
        self._partitions: list[Partition] = []

    def read(self) -> None:
        """What is there now; Conflict when anything is not what was expected."""
        self._table = self._hive.get_table(self._database, self._name)
        there = self._found()
        for move in self._moves:
            at = there[move.place.values].sd.location if move.place.values in there else None
            if at != move.place.location:
                words = shown(self._database, self._name, move.place)
                raise Conflict(f"{words} is {f'at {at}' if at else 'gone'}, not at {move.place.location}")
        self._partitions = [there[move.place.values] for move in self._moves if move.place.values in there]

    def move(self, *, columns_of_table: bool) -> None:
        """Send the changes, in one transaction of the metastore's."""
        assert self._table is not None
        if not self._partitions:
            made = [_made(self._table, move.place, move.location, move.parameters) for move in self._moves]
            self._hive.add_partitions(made)
            return
        for partition, move in zip(self._partitions, self._moves, strict=True):
            partition.sd.location = move.location
            if columns_of_table:
                partition.sd.cols = self._table.sd.cols
            partition.parameters = _changed(partition.parameters, move.parameters)
        self._hive.alter_partitions_with_environment_context(self._database, self._name, self._partitions, _AS_SENT)

    def signals(self) -> list[ChangeSignals]:
        """What the metastore says of them now; CommitUnknown when one is gone again, for they were moved."""
        there = self._found()
        lost = [move.place for move in self._moves if move.place.values not in there]
        if lost:
            raise CommitUnknown(f"{shown(self._database, self._name, lost[0])} was moved and is gone")
        return [_signals(there[move.place.values]) for move in self._moves]

    def _found(self) -> dict[tuple[str, ...], Partition]:
        assert self._table is not None
        columns = table_value(self._table).partition_columns
        names = [format_partition_name(columns, move.place.values) for move in self._moves]
        found = self._hive.get_partitions_by_names(self._database, self._name, names)
        return {tuple(one.values): one for one in found}


def _signals(found: Partition) -> ChangeSignals:
    partition = partition_value(found)
    return ChangeSignals(
        location=partition.storage.location, ddl_time=partition.ddl_time, statistics=partition.statistics
    )


def _made(table: Table, place: PartitionLocation, location: str, parameters: Mapping[str, str | None]) -> Partition:
    descriptor: StorageDescriptor = copy.deepcopy(table.sd)
    descriptor.location = location
    return Partition(
        values=list(place.values),
        dbName=table.dbName,
        tableName=table.tableName,
        sd=descriptor,
        parameters=_changed({}, parameters),
    )


def _changed(before: Mapping[str, str] | None, changes: Mapping[str, str | None]) -> dict[str, str]:
    kept = {key: value for key, value in (before or {}).items() if key not in changes}
    return kept | {key: value for key, value in changes.items() if value is not None}
