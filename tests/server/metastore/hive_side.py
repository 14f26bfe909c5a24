"""What Hive does behind our back, on the real metastore; the fake offers the same verbs itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from hmsclient.genthrift.hive_metastore.ttypes import (
    AddPrimaryKeyRequest,
    ClientCapabilities,
    Database,
    DataOperationType,
    FieldSchema,
    GetTableRequest,
    LockComponent,
    LockLevel,
    LockRequest,
    LockType,
    NoSuchObjectException,
    Partition,
    SerDeInfo,
    ShowLocksRequest,
    SQLPrimaryKey,
    StorageDescriptor,
    Table,
    UnlockRequest,
)
from hmsclient.hmsclient import HMSClient
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TTransportBase

from catalog.hive.model import HiveColumn, HivePartition, HiveStorage, HiveTable
from catalog.locations.paths import parse_metastore_address

# INSERT_ONLY_TABLES, which Hive 3 added: without it the metastore shows no insert-only table.
READS_ALL = ClientCapabilities([2])


class HiveSide:
    """Another program at work on the metastore.

    Its client is `hmsclient`, which shares only the Thrift runtime with Firn's: see decision 67.
    """

    def __init__(self, uri: str, warehouse: Path | str, transport: TTransportBase | None = None) -> None:
        """Connect, through a transport that authenticates if the metastore demands that."""
        host, port = parse_metastore_address(uri)
        iprot = None if transport is None else TBinaryProtocol(transport)
        self.client = HMSClient(iprot=iprot, host=host, port=port).open()
        self._warehouse = warehouse if isinstance(warehouse, str) else f"file:{warehouse}"

    def close(self) -> None:
        self.client.close()

    def add_database(self, name: str) -> None:
        self.client.create_database(Database(name=name, locationUri=f"{self._warehouse}/{name}.db"))

    def declare_primary_key(self, database: str, name: str, columns: Sequence[str], constraint: str = "pk") -> None:
        """Declare it, as `PRIMARY KEY (…) DISABLE NOVALIDATE` of Hive does; names of constraints are unique."""
        keys = [
            SQLPrimaryKey(
                table_db=database, table_name=name, column_name=column, key_seq=at, pk_name=constraint,
                enable_cstr=False, validate_cstr=False, rely_cstr=False,
            )
            for at, column in enumerate(columns, 1)
        ]  # fmt: skip
        self.client.add_primary_key(AddPrimaryKeyRequest(keys))

    def add_table(self, table: HiveTable) -> None:
        hive_table = Table(
            dbName=table.database,
            tableName=table.name,
            tableType=table.type,
            owner=table.owner,
            parameters=dict(table.parameters),
            partitionKeys=_fields(table.partition_columns),
            sd=_descriptor(table.storage),
            viewOriginalText=table.view_text or None,
            viewExpandedText=table.view_text or None,
        )
        try:
            self.read_table(table.database, table.name)
        except NoSuchObjectException:
            self.client.create_table(hive_table)
        else:
            self.client.alter_table(table.database, table.name, hive_table)

    def read_table(self, database: str, name: str) -> Table:
        """The table as a client of Hive 2 gets it: by the one call for it that all Hives still answer."""
        request = GetTableRequest(dbName=database, tblName=name, capabilities=READS_ALL)
        return self.client.get_table_req(request).table

    def table(self, database: str, name: str) -> HiveTable:
        """The same in the domain's words."""
        table = self.read_table(database, name)
        return HiveTable(
            database=table.dbName,
            name=table.tableName,
            type=table.tableType,
            storage=_storage(table.sd),
            partition_columns=_columns(table.partitionKeys),
            parameters=table.parameters,
            owner=table.owner,
            created=table.createTime or None,
        )

    def partitions(self, database: str, name: str, names: Sequence[str]) -> list[HivePartition]:
        """Partitions by name, each read by itself."""
        partitions = [self.client.get_partition_by_name(database, name, partition) for partition in names]
        return [
            HivePartition(
                values=tuple(partition.values), storage=_storage(partition.sd), parameters=partition.parameters
            )
            for partition in partitions
        ]

    def drop_table(self, database: str, name: str) -> None:
        self.client.drop_table(database, name, deleteData=False)

    def add_partition(self, database: str, name: str, partition: HivePartition) -> None:
        added = _partition(database, name, partition)
        try:
            self.client.get_partition(database, name, list(partition.values))
        except NoSuchObjectException:
            self.client.add_partitions([added])
        else:
            self.client.alter_partition(database, name, added)

    def add_partitions(self, database: str, name: str, partitions: Sequence[HivePartition]) -> None:
        self.client.add_partitions([_partition(database, name, partition) for partition in partitions])

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
                level=LockLevel.PARTITION if partition else LockLevel.TABLE,
                dbname=database,
                tablename=name,
                partitionname=partition or None,
                operationType=DataOperationType.NO_TXN,
            )
            for partition in partitions or ("",)
        ]
        request = LockRequest(component=components, user="hive", hostname="elsewhere", agentInfo="hive_2026")
        lock = self.client.lock(request)
        try:
            yield lock.state
        finally:
            self.client.unlock(UnlockRequest(lockid=lock.lockid))

    def end_locks(self, database: str) -> None:
        """As the metastore does with those that nobody keeps."""
        for lock in self.client.show_locks(ShowLocksRequest(dbname=database)).locks:
            if lock.dbname == database:
                self.client.unlock(UnlockRequest(lockid=lock.lockid))

    def drop_partition(self, database: str, name: str, partition: str) -> None:
        self.client.drop_partition_by_name(database, name, partition, deleteData=False)


def _partition(database: str, name: str, partition: HivePartition) -> Partition:
    return Partition(
        dbName=database,
        tableName=name,
        values=list(partition.values),
        sd=_descriptor(partition.storage),
        parameters=dict(partition.parameters),
    )


def _columns(fields: Sequence[FieldSchema]) -> tuple[HiveColumn, ...]:
    return tuple(HiveColumn(name=field.name, type=field.type, comment=field.comment or None) for field in fields)


def _storage(sd: StorageDescriptor) -> HiveStorage:
    return HiveStorage(
        location=sd.location,
        input_format=sd.inputFormat,
        output_format=sd.outputFormat,
        serde=sd.serdeInfo.serializationLib,
        serde_parameters=sd.serdeInfo.parameters or {},
        columns=_columns(sd.cols),
        bucket_columns=tuple(sd.bucketCols),
        buckets=sd.numBuckets,
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
