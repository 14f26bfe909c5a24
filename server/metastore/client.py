"""The metastore port over thrift."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeVar

from hive_metastore.ttypes import EnvironmentContext, NotificationEventRequest, Partition, Table
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TTransport import TTransportException

from catalog.errors import Conflict, NotFound, Unavailable
from catalog.hive.baseline import ChangeSignals
from catalog.hive.model import HiveColumn, HiveDatabase, HivePartition, HiveTable
from catalog.hive.notification_log import Notification, NotificationBatch
from catalog.ports.metastore import PartitionLocation, PartitionMove, TableLock
from server.metastore.calls import HiveClient
from server.metastore.convert import column_fields, database_value, partition_value, table_value
from server.metastore.errors import LOST, asking, changing, said
from server.metastore.locks import Locks
from server.metastore.pool import Connection, MetastoreSettings, Pool
from server.metastore.repointing import Mover, Movers, shown
from server.prefetch import run_in_threads

T = TypeVar("T")
Call = Callable[[HiveClient], T]

_ALL = -1
_TABLES_PER_CALL = 200
_PARTITIONS_PER_CALL = 2500
_NOTICES = 500
"""Each brings the whole table with it."""
_CALLS_AT_ONCE = 3
"""For one table's partitions: while one answer is decoded, the metastore works on the next."""


class HiveMetastore:
    """Implements `catalog.ports.metastore.Metastore`."""

    def __init__(self, settings: MetastoreSettings) -> None:
        """Nothing is opened before the first call."""
        self._pool = Pool(settings)
        self._metastores = len(settings.uris)
        self._locks = Locks(self._ask, self._change, settings.locks)

    def databases(self) -> list[str]:
        return sorted(self._ask("for its databases", lambda hive: hive.get_all_databases()))

    def database(self, name: str) -> HiveDatabase:
        return database_value(self._ask(f"for database {name}", lambda hive: hive.get_database(name)))

    def tables(self, database: str) -> list[str]:
        def ask(hive: HiveClient) -> list[str]:
            hive.get_database(database)  # get_all_tables answers [] for a database that is not there
            names: list[str] = hive.get_all_tables(database)
            return names

        return sorted(self._ask(f"for the tables of {database}", ask))

    def table(self, database: str, name: str) -> HiveTable:
        try:
            found = self._ask(f"for table {database}.{name}", lambda hive: hive.get_table(database, name))
        except NotFound as error:
            hint = "look at its name; `firn hive list --refresh` shows what there is"
            raise NotFound(f"the Hive metastore has no table {database}.{name}", hint=hint) from error
        return table_value(found)

    def tables_detail(self, database: str, names: Sequence[str]) -> list[HiveTable]:
        def ask(hive: HiveClient, some: list[str]) -> list[Table]:
            hive.get_database(database)  # Hive 2.3 answers [] for a database that is not there
            return list(hive.get_table_objects_by_name(database, some))

        found: list[HiveTable] = []
        for some in _batches(names, _TABLES_PER_CALL):
            answer = self._ask(f"for {len(some)} tables of {database}", partial(ask, some=some))
            found.extend(map(table_value, answer))
        return found

    def partition_names(self, database: str, name: str) -> list[str]:
        def ask(hive: HiveClient) -> list[str]:
            hive.get_table(database, name)  # get_partition_names answers [] for a table that is not there
            # The limit is a 16 bit number; without one all names come, and names are short.
            names: list[str] = hive.get_partition_names(database, name, _ALL)
            return names

        return self._ask(f"for the partition names of {database}.{name}", ask)

    def partitions(self, database: str, name: str, names: Sequence[str]) -> list[HivePartition]:
        def ask(hive: HiveClient, some: list[str]) -> list[Partition]:
            return list(hive.get_partitions_by_names(database, name, some))

        def asked(some: list[str]) -> list[HivePartition]:
            answer = self._ask(f"for {len(some)} partitions of {database}.{name}", partial(ask, some=some))
            return [partition_value(one) for one in answer]

        if len(names) <= _PARTITIONS_PER_CALL:
            return asked([*names]) if names else []
        return list(
            run_in_threads(asked, names, threads=_CALLS_AT_ONCE, at_once=_PARTITIONS_PER_CALL, name="partitions")
        )

    def set_table_parameters(
        self, database: str, name: str, parameters: Mapping[str, str], *, remove: Collection[str] = ()
    ) -> None:
        what = f"to set {', '.join([*parameters, *remove])} on {database}.{name}"

        def change(hive: HiveClient) -> None:
            with asking(what):
                table = hive.get_table(database, name)
            kept = {key: value for key, value in (table.parameters or {}).items() if key not in remove}
            changed = kept | dict(parameters)
            if changed == table.parameters:
                return
            table.parameters = changed
            # Otherwise the metastore lists the table's directory and rewrites its statistics and times.
            context = EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"})
            with changing(what):
                hive.alter_table_with_environment_context(database, name, table, context)

        self._change(change)

    def lock(
        self, database: str, name: str, partitions: Sequence[str], *, wait: bool = True
    ) -> AbstractContextManager[TableLock]:
        return self._locks.of(database, name, partitions, wait=wait)

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
        what = f"to move {shown(database, name, place)} to {location}"
        found: list[ChangeSignals] = []

        def change(hive: HiveClient) -> None:
            mover = Mover(hive, database, name, place)
            with asking(what):
                mover.read()
            with changing(what):
                mover.move(location, parameters, columns_of_table=columns_of_table)
                found.append(mover.signals())

        self._change(change)
        return found[0]

    def move_all(
        self, database: str, name: str, moves: Sequence[PartitionMove], *, columns_of_table: bool = False
    ) -> Sequence[ChangeSignals]:
        what = f"to move {len(moves)} partitions of {database}.{name}"
        found: list[ChangeSignals] = []

        def change(hive: HiveClient) -> None:
            movers = Movers(hive, database, name, moves)
            with asking(what):
                movers.read()
            with changing(what):
                movers.move(columns_of_table=columns_of_table)
                found.extend(movers.signals())

        self._change(change)
        return found

    def alter_columns(
        self,
        database: str,
        name: str,
        columns: Sequence[HiveColumn],
        *,
        expected: Sequence[HiveColumn],
        cascade: bool,
    ) -> None:
        what = f"to alter the columns of {database}.{name}"

        def change(hive: HiveClient) -> None:
            with asking(what):
                table = hive.get_table(database, name)
            if table_value(table).columns != tuple(expected):
                raise Conflict(f"{database}.{name} has other columns than a moment ago")
            table.sd.cols = column_fields(columns)
            properties = {"DO_NOT_UPDATE_STATS": "true", **({"CASCADE": "true"} if cascade else {})}
            with changing(what):
                hive.alter_table_with_environment_context(database, name, table, EnvironmentContext(properties))

        self._change(change)

    def notices(self, after: int | None) -> NotificationBatch | None:
        end: int = self._ask("for the end of its log", lambda hive: hive.get_current_notificationEventId()).eventId
        if not end:  # nobody writes it, or nothing has ever happened
            return None
        if after is None or end <= after:
            return NotificationBatch(upto=end)
        asked = NotificationEventRequest(lastEvent=max(after, end - _NOTICES), maxEvents=_NOTICES)
        answer = self._ask("for its log of changes", lambda hive: hive.get_next_notification(asked))
        found = [
            Notification(kind=one.eventType, database=one.dbName, table=one.tableName or None)
            for one in answer.events
            if one.dbName
        ]
        return NotificationBatch(upto=max([end, *(one.eventId for one in answer.events)]), found=tuple(found))

    def health(self) -> str:
        version: str = self._ask("for its version", lambda hive: hive.getVersion())
        return version

    def close(self) -> None:
        """Close idle connections; the next call opens new ones."""
        self._pool.close()

    def _ask(self, what: str, call: Call[T]) -> T:
        """A read, tried again where another connection or another metastore may answer."""
        failures = 0
        with self._pool.turn(), asking(what):
            while True:
                idle = self._pool.idle()
                connection = idle or self._pool.connect()
                try:
                    return self._on(connection, call)
                except LOST as error:
                    self._pool.avoid(connection.uri)
                    # An idle connection may only have been closed by the other side: no word against the metastore.
                    failures += idle is None or _timed_out(error)
                    if failures >= self._metastores:
                        raise Unavailable(
                            f"the Hive metastore at {connection.uri} did not answer {what}: {said(error)}",
                            hint="Check its load, or raise FIRN_HIVE__READ_TIMEOUT_SECONDS.",
                        ) from error

    def _change(self, call: Call[T]) -> T:
        """A write: once, and on a new connection, so that a dead one cannot leave us wondering."""
        with self._pool.turn():
            return self._on(self._pool.connect(), call)

    def _on(self, connection: Connection, call: Call[T]) -> T:
        """One call; the connection is kept when it was answered, if only by a refusal."""
        answered = False
        try:
            result = call(connection.client)
            answered = True
            return result
        except TException as error:
            answered = not isinstance(error, (*LOST, TApplicationException))
            raise
        finally:
            if answered:
                self._pool.give_back(connection)
            else:
                connection.close()


def _timed_out(error: BaseException) -> bool:
    return isinstance(error, TTransportException) and error.type == TTransportException.TIMED_OUT


def _batches(names: Sequence[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(names), size):
        yield list(names[start : start + size])
