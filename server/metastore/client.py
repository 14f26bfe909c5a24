"""The metastore port over thrift."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeVar

from hive_metastore.ttypes import (
    EnvironmentContext,
    NotificationEventRequest,
    Partition,
    PrimaryKeysRequest,
    SQLPrimaryKey,
    Table,
)
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TTransport import TTransportException

from catalog.errors import Conflict, NotFound, Unavailable
from catalog.hive.baseline import ChangeSignals
from catalog.hive.model import HiveColumn, HiveDatabase, HivePartition, HiveTable
from catalog.hive.notification_log import Notification, NotificationBatch
from catalog.ports.metastore import LockHolder, PartitionLocation, PartitionMove, TableLock
from server.metastore.calls import HiveClient
from server.metastore.convert import column_fields, database_value, partition_value, table_value
from server.metastore.errors import LOST, get_message, translate_read_errors, translate_write_errors
from server.metastore.locks import Locks
from server.metastore.pool import Connection, MetastoreSettings, Pool
from server.metastore.repointing import Mover, Movers, describe_target
from server.prefetch import run_in_threads

T = TypeVar("T")
Call = Callable[[HiveClient], T]

_ALL = -1
_HIVE_CATALOG = "hive"
"""The catalog that holds all tables since Hive 3; older metastores do not know catalogs."""
_TABLES_PER_CALL = 200
_PARTITIONS_PER_CALL = 2500
_NOTICES = 500
"""Notifications per call; each contains the whole table."""
_CALLS_AT_ONCE = 3
"""Parallel calls for the tables of a database, or the partitions of a table: the metastore prepares an answer while the
server decodes another.
"""


class HiveMetastore:
    """Implements `catalog.ports.metastore.Metastore`."""

    def __init__(self, settings: MetastoreSettings) -> None:
        """Open no connection before the first call."""
        self._pool = Pool(settings)
        self._metastores = len(settings.uris)
        self._locks = Locks(self._ask, self._change, settings.locks)

    def databases(self) -> list[str]:
        return sorted(self._ask("for its databases", lambda hive: hive.get_all_databases()))

    def database(self, name: str) -> HiveDatabase:
        return database_value(self._ask(f"for database {name}", lambda hive: hive.get_database(name)))

    def tables(self, database: str) -> list[str]:
        def ask(hive: HiveClient) -> list[str]:
            hive.get_database(database)  # get_all_tables answers [] for a missing database
            names: list[str] = hive.get_all_tables(database)
            return names

        return sorted(self._ask(f"for the tables of {database}", ask))

    def table(self, database: str, name: str) -> HiveTable:
        try:
            table = self._ask(f"for table {database}.{name}", lambda hive: hive.get_table(database, name))
        except NotFound as error:
            hint = "check the name; `firn hive list --refresh` shows the existing tables"
            raise NotFound(f"the Hive metastore has no table {database}.{name}", hint=hint) from error
        return table_value(table)

    def tables_detail(self, database: str, names: Sequence[str]) -> list[HiveTable]:
        def ask(hive: HiveClient, batch: list[str]) -> list[Table]:
            hive.get_database(database)  # Hive 2.3 answers [] for a missing database
            return list(hive.get_table_objects_by_name(database, batch))

        def fetch(batch: list[str]) -> list[HiveTable]:
            answer = self._ask(f"for {len(batch)} tables of {database}", partial(ask, batch=batch))
            return [table_value(table) for table in answer]

        if len(names) <= _TABLES_PER_CALL:
            return fetch([*names]) if names else []
        return list(run_in_threads(fetch, names, threads=_CALLS_AT_ONCE, at_once=_TABLES_PER_CALL, name="tables"))

    def primary_key(self, database: str, name: str) -> list[str]:
        def ask(hive: HiveClient) -> list[SQLPrimaryKey]:
            request = PrimaryKeysRequest(db_name=database, tbl_name=name, catName=_HIVE_CATALOG)
            return list(hive.get_primary_keys(request).primaryKeys)

        columns = self._ask(f"for the primary key of {database}.{name}", ask)
        return [column.column_name for column in sorted(columns, key=lambda column: column.key_seq)]

    def partition_names(self, database: str, name: str) -> list[str]:
        def ask(hive: HiveClient) -> list[str]:
            hive.get_table(database, name)  # get_partition_names answers [] for a missing table
            # The limit is only a 16-bit number, so the call asks for all names, which are short.
            names: list[str] = hive.get_partition_names(database, name, _ALL)
            return names

        return self._ask(f"for the partition names of {database}.{name}", ask)

    def partitions(self, database: str, name: str, names: Sequence[str]) -> list[HivePartition]:
        def ask(hive: HiveClient, batch: list[str]) -> list[Partition]:
            return list(hive.get_partitions_by_names(database, name, batch))

        def fetch(batch: list[str]) -> list[HivePartition]:
            answer = self._ask(f"for {len(batch)} partitions of {database}.{name}", partial(ask, batch=batch))
            return [partition_value(partition) for partition in answer]

        if len(names) <= _PARTITIONS_PER_CALL:
            return fetch([*names]) if names else []
        return list(
            run_in_threads(fetch, names, threads=_CALLS_AT_ONCE, at_once=_PARTITIONS_PER_CALL, name="partitions")
        )

    def set_table_parameters(
        self, database: str, name: str, parameters: Mapping[str, str], *, remove: Collection[str] = ()
    ) -> None:
        request = f"to set {', '.join([*parameters, *remove])} on {database}.{name}"

        def change(hive: HiveClient) -> None:
            with translate_read_errors(request):
                table = hive.get_table(database, name)
            kept = {key: value for key, value in (table.parameters or {}).items() if key not in remove}
            changed = kept | dict(parameters)
            if changed == table.parameters:
                return
            table.parameters = changed
            # Otherwise the metastore lists the table's directory and rewrites its statistics and times.
            context = EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"})
            with translate_write_errors(request):
                hive.alter_table_with_environment_context(database, name, table, context)

        self._change(change)

    def lock(
        self, database: str, name: str, partitions: Sequence[str], *, wait: bool = True
    ) -> AbstractContextManager[TableLock]:
        return self._locks.of(database, name, partitions, wait=wait)

    def lock_holders(self, database: str, name: str) -> list[LockHolder]:
        return self._locks.holders(database, name)

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
        request = f"to move {describe_target(database, name, place)} to {location}"
        signals: list[ChangeSignals] = []

        def change(hive: HiveClient) -> None:
            mover = Mover(hive, database, name, place)
            with translate_read_errors(request):
                mover.read()
            with translate_write_errors(request):
                mover.move(location, parameters, columns_of_table=columns_of_table)
                signals.append(mover.signals())

        self._change(change)
        return signals[0]

    def move_all(
        self, database: str, name: str, moves: Sequence[PartitionMove], *, columns_of_table: bool = False
    ) -> Sequence[ChangeSignals]:
        request = f"to move {len(moves)} partitions of {database}.{name}"
        signals: list[ChangeSignals] = []

        def change(hive: HiveClient) -> None:
            movers = Movers(hive, database, name, moves)
            with translate_read_errors(request):
                movers.read()
            with translate_write_errors(request):
                movers.move(columns_of_table=columns_of_table)
                signals.extend(movers.signals())

        self._change(change)
        return signals

    def alter_columns(
        self,
        database: str,
        name: str,
        columns: Sequence[HiveColumn],
        *,
        expected: Sequence[HiveColumn],
        cascade: bool,
    ) -> None:
        request = f"to alter the columns of {database}.{name}"

        def change(hive: HiveClient) -> None:
            with translate_read_errors(request):
                table = hive.get_table(database, name)
            if table_value(table).columns != tuple(expected):
                raise Conflict(f"somebody else changed the columns of {database}.{name} at the same time")
            table.sd.cols = column_fields(columns)
            properties = {"DO_NOT_UPDATE_STATS": "true", **({"CASCADE": "true"} if cascade else {})}
            with translate_write_errors(request):
                hive.alter_table_with_environment_context(database, name, table, EnvironmentContext(properties))

        self._change(change)

    def notices(self, after: int | None) -> NotificationBatch | None:
        end: int = self._ask("for the end of its log", lambda hive: hive.get_current_notificationEventId()).eventId
        if not end:  # the metastore writes no log, or the log is empty
            return None
        if after is None or end <= after:
            return NotificationBatch(upto=end)
        log_request = NotificationEventRequest(lastEvent=max(after, end - _NOTICES), maxEvents=_NOTICES)
        answer = self._ask("for its log of changes", lambda hive: hive.get_next_notification(log_request))
        notifications = [
            Notification(kind=event.eventType, database=event.dbName, table=event.tableName or None)
            for event in answer.events
            if event.dbName
        ]
        last = max([end, *(event.eventId for event in answer.events)])
        return NotificationBatch(upto=last, notifications=tuple(notifications))

    def health(self) -> str:
        version: str = self._ask("for its version", lambda hive: hive.getVersion())
        return version

    def close(self) -> None:
        """Close idle connections; the next call opens new ones."""
        self._pool.close()

    def _ask(self, request: str, call: Call[T]) -> T:
        """Run a read, and retry it where another connection or another metastore may answer."""
        failures = 0
        with self._pool.turn(), translate_read_errors(request):
            while True:
                idle = self._pool.idle()
                connection = idle or self._pool.connect()
                try:
                    return self._run_on(connection, call)
                except LOST as error:
                    self._pool.avoid(connection.uri)
                    # The other side may have closed an idle connection, which is no failure of the metastore.
                    failures += idle is None or _is_timeout(error)
                    if failures >= self._metastores:
                        raise Unavailable(
                            f"the Hive metastore at {connection.uri} did not answer {request}: {get_message(error)}",
                            hint="Check its load, or raise FIRN_HIVE__READ_TIMEOUT_SECONDS.",
                        ) from error

    def _change(self, call: Call[T]) -> T:
        """Run a write once, on a new connection, since a dead one would leave its outcome unknown."""
        with self._pool.turn():
            return self._run_on(self._pool.connect(), call)

    def _run_on(self, connection: Connection, call: Call[T]) -> T:
        """Run one call; keep the connection if the metastore answered, even with a refusal."""
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


def _is_timeout(error: BaseException) -> bool:
    return isinstance(error, TTransportException) and error.type == TTransportException.TIMED_OUT
