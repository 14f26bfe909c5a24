"""Thrift calls that all Hive Metastores from 2.3 to 4.x support.

The generated client is Hive 4's because of its structs.  An older client would drop fields that it does not know, such
as the kind of the owner, when it reads a table and writes it back.  Older metastores understand newer structs.
"""

from __future__ import annotations

from collections.abc import Sequence

from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import (
    ClientCapabilities,
    ClientCapability,
    GetTableRequest,
    GetTablesRequest,
    Partition,
    Table,
)
from thrift.Thrift import TApplicationException

# Without this capability the metastore refuses an insert-only table, and any batch with one. As for any other table,
# the parameters decide what Firn does with it. Without the capabilities of a "processor" Hive 4 translates nothing.
_READS_ALL = ClientCapabilities([ClientCapability.INSERT_ONLY_TABLES])


class HiveClient(Client):  # type: ignore[misc]  # thrift is untyped
    """The generated client, with replacements for two calls that Hive 4 removed; 2.3 has the replacements too."""

    def get_table(self, dbname: str, tbl_name: str) -> Table:
        return self.get_table_req(GetTableRequest(dbName=dbname, tblName=tbl_name, capabilities=_READS_ALL)).table

    def get_table_objects_by_name(self, dbname: str, tbl_names: Sequence[str]) -> list[Table]:
        request = GetTablesRequest(dbName=dbname, tblNames=list(tbl_names), capabilities=_READS_ALL)
        tables: list[Table] = self.get_table_objects_by_name_req(request).tables
        return tables

    def get_partitions_by_names(self, db_name: str, tbl_name: str, names: Sequence[str]) -> list[Partition]:
        try:
            partitions: list[Partition] = super().get_partitions_by_names(db_name, tbl_name, names)
        except TApplicationException as error:
            # For a missing table Hive 4 raises an exception that this call does not declare in the generated client.
            if error.type == TApplicationException.MISSING_RESULT:
                self.get_table(db_name, tbl_name)
            raise
        return partitions
