"""What Hive does behind our back, on the real metastore; the fake offers the same verbs itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from hive_metastore.ttypes import (
    Database,
    DataOperationType,
    FieldSchema,
    LockComponent,
    LockLevel,
    LockRequest,
    LockType,
    NoSuchObjectException,
    Partition,
    SerDeInfo,
    ShowLocksRequest,
    StorageDescriptor,
    Table,
    UnlockRequest,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from catalog.hive.model import HiveColumn, HivePartition, HiveStorage, HiveTable
from catalog.places import metastore_address
from server.metastore.calls import HiveClient


class HiveSide:
    """Another program at work on the metastore."""

    def __init__(self, uri: str, warehouse: Path) -> None:
        self._transport = TBufferedTransport(TSocket(*metastore_address(uri)))
        self._transport.open()
        self.thrift = HiveClient(TBinaryProtocol(self._transport))
        self._warehouse = warehouse

    def close(self) -> None:
        self._transport.close()

    def add_database(self, name: str) -> None:
        self.thrift.create_database(Database(name=name, locationUri=f"file:{self._warehouse}/{name}.db"))

    def add_table(self, table: HiveTable) -> None:
        made = Table(
            dbName=table.database,
            tableName=table.name,
            tableType=table.type,
            owner=table.owner,
            parameters=dict(table.parameters),
            partitionKeys=_fields(table.partition_columns),
            sd=_descriptor(table.storage),
        )
        try:
            self.thrift.get_table(table.database, table.name)
        except NoSuchObjectException:
            self.thrift.create_table(made)
        else:
            self.thrift.alter_table(table.database, table.name, made)

    def drop_table(self, database: str, name: str) -> None:
        self.thrift.drop_table(database, name, deleteData=False)

    def add_partition(self, database: str, name: str, partition: HivePartition) -> None:
        made = _partition(database, name, partition)
        try:
            self.thrift.get_partition(database, name, list(partition.values))
        except NoSuchObjectException:
            self.thrift.add_partition(made)
        else:
            self.thrift.alter_partition(database, name, made)

    def add_partitions(self, database: str, name: str, partitions: Sequence[HivePartition]) -> None:
        self.thrift.add_partitions([_partition(database, name, partition) for partition in partitions])

    def others_lock(self, database: str, name: str, *partitions: str) -> AbstractContextManager[int]:
        """As a statement of Hive's does that writes there: into partitions, or into the table as a whole."""
        return self._locked(LockType.EXCLUSIVE, database, name, *partitions)

    def readers_lock(self, database: str, name: str) -> AbstractContextManager[int]:
        """As a query takes it."""
        return self._locked(LockType.SHARED_READ, database, name)

    @contextmanager
    def _locked(self, kind: int, database: str, name: str, *partitions: str) -> Iterator[int]:
        """The state of the request: it is not waited for."""
        components = [
            LockComponent(
                type=kind,
                level=LockLevel.PARTITION if one else LockLevel.TABLE,
                dbname=database,
                tablename=name,
                partitionname=one or None,
                operationType=DataOperationType.NO_TXN,
            )
            for one in partitions or ("",)
        ]
        request = LockRequest(component=components, user="hive", hostname="elsewhere", agentInfo="hive_2026")
        lock = self.thrift.lock(request)
        try:
            yield lock.state
        finally:
            self.thrift.unlock(UnlockRequest(lockid=lock.lockid))

    def end_locks(self, database: str) -> None:
        """As the metastore does with those that nobody keeps."""
        for one in self.thrift.show_locks(ShowLocksRequest(dbname=database)).locks:
            if one.dbname == database:
                self.thrift.unlock(UnlockRequest(lockid=one.lockid))

    def drop_partition(self, database: str, name: str, partition: str) -> None:
        self.thrift.drop_partition_by_name(database, name, partition, deleteData=False)


def _partition(database: str, name: str, partition: HivePartition) -> Partition:
    return Partition(
        dbName=database,
        tableName=name,
        values=list(partition.values),
        sd=_descriptor(partition.storage),
        parameters=dict(partition.parameters),
    )


def _fields(columns: tuple[HiveColumn, ...]) -> list[FieldSchema]:
    return [FieldSchema(name=column.name, type=column.type, comment=column.comment) for column in columns]


def _descriptor(storage: HiveStorage) -> StorageDescriptor:
    return StorageDescriptor(
        location=storage.location,
        cols=_fields(storage.columns),
        inputFormat=storage.input_format,
        outputFormat=storage.output_format,
        serdeInfo=SerDeInfo(serializationLib=storage.serde, parameters=dict(storage.serde_parameters)),
        bucketCols=list(storage.bucket_columns),
        numBuckets=storage.buckets,
    )
