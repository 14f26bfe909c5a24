"""Thrift's calls as all Hive Metastores from 2.3 to 4.x know them.

The generated client is Hive 4's, for its structs: who reads a table with an older one's and writes it back drops what
that one does not know, such as the kind of its owner. Structs of later versions are understood by earlier ones.
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

# Without it one insert-only table is refused, with it the whole batch that names it. What can be done with the table
# is decided by its parameters, as of any other. Without the capabilities of a "processor" Hive 4 translates nothing.
_READS_ALL = ClientCapabilities([ClientCapability.INSERT_ONLY_TABLES])


class HiveClient(Client):  # type: ignore[misc]  # thrift is untyped
    """The generated client, without the two calls that Hive 4 has given up: those that replace them are in 2.3 too."""

    def get_table(self, dbname: str, tbl_name: str) -> Table:
        return self.get_table_req(GetTableRequest(dbName=dbname, tblName=tbl_name, capabilities=_READS_ALL)).table

    def get_table_objects_by_name(self, dbname: str, tbl_names: Sequence[str]) -> list[Table]:
        request = GetTablesRequest(dbName=dbname, tblNames=list(tbl_names), capabilities=_READS_ALL)
        found: list[Table] = self.get_table_objects_by_name_req(request).tables
        return found

    def get_partitions_by_names(self, db_name: str, tbl_name: str, names: Sequence[str]) -> list[Partition]:
        try:
            found: list[Partition] = super().get_partitions_by_names(db_name, tbl_name, names)
        except TApplicationException as error:
            # Hive 4 refuses a table that is not there by an exception that the call had not when the client was made.
            if error.type == TApplicationException.MISSING_RESULT:
                self.get_table(db_name, tbl_name)
            raise
        return found
