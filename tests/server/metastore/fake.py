"""A metastore in memory, for tests of services; the behaviour suite beside it runs on it and on real ones alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from catalog.errors import CatalogError, Conflict, NotFound, Unavailable
from catalog.hive.baseline import ChangeSignals
from catalog.hive.model import PROVIDER, HiveColumn, HiveDatabase, HivePartition, HiveTable
from catalog.hive.notification_log import Notification, NotificationBatch
from catalog.hive.partition_names import format_partition_name
from catalog.ports.metastore import LockHolder, PartitionLocation, PartitionMove
from tests.server.metastore.fake_locks import FakeLock, FakeLocks


class FakeMetastore:
    """Implements `catalog.ports.metastore.Metastore`; `add_…`, `drop_…` and `others_lock` are what Hive does unseen."""

    def __init__(self) -> None:
        self.answers = True
        """Set to False to make every call Unavailable."""
        self.locks = FakeLocks()
        self.log: list[Notification] | None = None
        """Set to a list to keep a log of changes."""
        self._primary_keys: dict[tuple[str, str], tuple[str, ...]] = {}
        self._databases: dict[str, dict[str, HiveTable]] = {"default": {}}
        self._about: dict[str, HiveDatabase] = {}
        self._partitions: dict[str, dict[str, HivePartition]] = {}

    def add_database(self, name: str, comment: str | None = None, parameters: Mapping[str, str] | None = None) -> None:
        self._databases.setdefault(name, {})
        self._about[name] = HiveDatabase(
            name=name, location=f"file:/{name}.db", comment=comment, parameters=dict(parameters or {})
        )

    def add_table(self, table: HiveTable) -> None:
        """Create the table or replace it; its partitions stay."""
        there = table.name in self._databases[table.database]
        self._note("ALTER_TABLE" if there else "CREATE_TABLE", table.database, table.name)
        self._databases[table.database][table.name] = table
        self._partitions.setdefault(table.full_name, {})

    def drop_table(self, database: str, name: str) -> None:
        del self._databases[database][name]
        del self._partitions[f"{database}.{name}"]
        self._note("DROP_TABLE", database, name)

    def add_partition(self, database: str, name: str, partition: HivePartition) -> None:
        """Add the partition or replace it."""
        columns = self._databases[database][name].partition_columns
        there, key = self._partitions[f"{database}.{name}"], format_partition_name(columns, partition.values)
        self._note("ALTER_PARTITION" if key in there else "ADD_PARTITION", database, name)
        there[key] = partition

    def drop_partition(self, database: str, name: str, partition: str) -> None:
        del self._partitions[f"{database}.{name}"][partition]
        self._note("DROP_PARTITION", database, name)

    def others_lock(self, database: str, name: str, *partitions: str) -> AbstractContextManager[None]:
        return self.locks.others(f"{database}.{name}", *partitions)

    def databases(self) -> list[str]:
        self._answer()
        return sorted(self._databases)

    def database(self, name: str) -> HiveDatabase:
        self._database(name)
        return self._about.get(name, HiveDatabase(name=name))

    def tables(self, database: str) -> list[str]:
        return sorted(self._database(database))

    def table(self, database: str, name: str) -> HiveTable:
        tables = self._database(database)
        if name not in tables:
            raise NotFound(f"the metastore has no table {database}.{name}")
        return tables[name]

    def tables_detail(self, database: str, names: Sequence[str]) -> list[HiveTable]:
        tables = self._database(database)
        return [tables[name] for name in names if name in tables]

    def primary_key(self, database: str, name: str) -> list[str]:
        self.table(database, name)
        return [*self._primary_keys.get((database, name), ())]

    def declare_primary_key(self, database: str, name: str, columns: Sequence[str]) -> None:
        """Declare it, as `PRIMARY KEY (…) DISABLE NOVALIDATE` of Hive does."""
        self._primary_keys[database, name] = tuple(columns)

    def partition_names(self, database: str, name: str) -> list[str]:
        self.table(database, name)
        return sorted(self._partitions[f"{database}.{name}"])

    def partitions(self, database: str, name: str, names: Sequence[str]) -> list[HivePartition]:
        if not names:
            return []
        self.table(database, name)
        there = self._partitions[f"{database}.{name}"]
        return [there[partition] for partition in names if partition in there]

    def set_table_parameters(
        self, database: str, name: str, parameters: Mapping[str, str], *, remove: Collection[str] = ()
    ) -> None:
        table = self.table(database, name)
        kept = {key: value for key, value in table.parameters.items() if key not in remove}
        self._databases[database][name] = replace(table, parameters=kept | dict(parameters))
        self._note("ALTER_TABLE", database, name)

    def lock(self, database: str, name: str, partitions: Sequence[str], *, wait: bool = True) -> FakeLock:
        del wait
        self._answer()
        return self.locks.of(f"{database}.{name}", partitions)

    def lock_holders(self, database: str, name: str) -> list[LockHolder]:
        self._answer()
        return self.locks.holders(f"{database}.{name}")

    def move_all(
        self, database: str, name: str, moves: Sequence[PartitionMove], *, columns_of_table: bool = False
    ) -> list[ChangeSignals]:
        before = dict(self._partitions[self.table(database, name).full_name])
        try:
            return [
                self.move(database, name, move.place, move.location, move.parameters, columns_of_table=columns_of_table)
                for move in moves
            ]
        except CatalogError:
            self._partitions[f"{database}.{name}"] = before
            raise

    def move(
        self,
        database: str,
        name: str,
        place: PartitionLocation,
        location: str,
        parameters: Mapping[str, str | None],
        *,
        columns_of_table: bool = False,
    ) -> ChangeSignals:
        table = self.table(database, name)
        there = self._partitions[table.full_name]
        key = format_partition_name(table.partition_columns, place.values)
        old = there.get(key) if place.values else table
        at = None if old is None else old.location if isinstance(old, HiveTable) else old.storage.location
        if at != place.location:
            raise Conflict(f"{table.full_name} is at {at}, not at {place.location}")
        kept = {} if old is None else {k: v for k, v in old.parameters.items() if k not in parameters}
        new = kept | {k: v for k, v in parameters.items() if v is not None}
        storage = replace(table.storage if old is None else old.storage, location=location)
        self._note("ALTER_PARTITION" if place.values else "ALTER_TABLE", database, name)
        if columns_of_table:
            storage = replace(storage, columns=table.columns)
        if isinstance(old, HiveTable):
            if PROVIDER in old.parameters:
                storage = replace(storage, serde_parameters={**storage.serde_parameters, "path": location})
            moved = replace(old, storage=storage, parameters=new)
            self._databases[database][name] = moved
            statistics = new.get("numFiles"), new.get("totalSize")
            return ChangeSignals(location=location, ddl_time=moved.ddl_time, statistics=statistics)
        there[key] = HivePartition(values=place.values, storage=storage, parameters=new)
        return ChangeSignals(location=location, ddl_time=there[key].ddl_time, statistics=there[key].statistics)

    def alter_columns(
        self,
        database: str,
        name: str,
        columns: Sequence[HiveColumn],
        *,
        expected: Sequence[HiveColumn],
        cascade: bool,
    ) -> None:
        table = self.table(database, name)
        if table.columns != tuple(expected):
            raise Conflict(f"somebody else changed the columns of {table.full_name} at the same time")
        storage = replace(table.storage, columns=tuple(columns))
        self._note("ALTER_TABLE", database, name)
        self._databases[database][name] = replace(table, storage=storage)
        there = self._partitions[table.full_name]
        for key, partition in there.items() if cascade else ():
            there[key] = replace(partition, storage=replace(partition.storage, columns=tuple(columns)))

    def notices(self, after: int | None) -> NotificationBatch | None:
        self._answer()
        if not self.log:
            return None
        end = len(self.log)
        return NotificationBatch(upto=end, notifications=() if after is None else tuple(self.log[after:]))

    def _note(self, kind: str, database: str, table: str) -> None:
        if self.log is not None:
            self.log.append(Notification(kind=kind, database=database, table=table))

    def health(self) -> str:
        self._answer()
        return "fake"

    def _database(self, name: str) -> dict[str, HiveTable]:
        self._answer()
        if name not in self._databases:
            raise NotFound(f"the metastore has no database {name}")
        return self._databases[name]

    def _answer(self) -> None:
        if not self.answers:
            raise Unavailable("the metastore does not answer")
