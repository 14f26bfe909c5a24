"""A partition or a table is pointed at another directory, all else of it left as it is."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from hive_metastore.ttypes import (
    EnvironmentContext,
    NoSuchObjectException,
    Partition,
    StorageDescriptor,
    Table,
)

from catalog.errors import Conflict
from catalog.hive.ground import Signals
from catalog.hive.model import PROVIDER
from catalog.hive.ports import Place
from server.metastore.calls import HiveClient
from server.metastore.convert import partition_value, table_value

# Otherwise the metastore lists the directory and rewrites statistics and times.
_AS_SENT = EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"})


def shown(database: str, name: str, place: Place) -> str:
    """The place in words."""
    return f"partition {'/'.join(place.values)} of {database}.{name}" if place.values else f"{database}.{name}"


class Mover:
    """One move over one connection: read, change, read what became of it."""

    def __init__(self, hive: HiveClient, database: str, name: str, place: Place) -> None:
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
            self._hive.add_partition(self._made(location, parameters))
        else:
            self._partition.sd.location = location
            if columns_of_table and self._table is not None:
                self._partition.sd.cols = self._table.sd.cols
            self._partition.parameters = _changed(self._partition.parameters, parameters)
            self._hive.alter_partition_with_environment_context(self._database, self._name, self._partition, _AS_SENT)

    def signals(self) -> Signals:
        """What the metastore says of it now."""
        if not self._place.values:
            table = table_value(self._hive.get_table(self._database, self._name))
            statistics = table.parameters.get("numFiles"), table.parameters.get("totalSize")
            return Signals(location=table.location, ddl_time=table.ddl_time, statistics=statistics)
        partition = partition_value(self._hive.get_partition(self._database, self._name, list(self._place.values)))
        return Signals(
            location=partition.storage.location, ddl_time=partition.ddl_time, statistics=partition.statistics
        )

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

    def _made(self, location: str, parameters: Mapping[str, str | None]) -> Partition:
        assert self._table is not None
        descriptor: StorageDescriptor = copy.deepcopy(self._table.sd)
        descriptor.location = location
        return Partition(
            values=list(self._place.values),
            dbName=self._database,
            tableName=self._name,
            sd=descriptor,
            parameters=_changed({}, parameters),
        )


def _changed(before: Mapping[str, str] | None, changes: Mapping[str, str | None]) -> dict[str, str]:
    kept = {key: value for key, value in (before or {}).items() if key not in changes}
    return kept | {key: value for key, value in changes.items() if value is not None}
