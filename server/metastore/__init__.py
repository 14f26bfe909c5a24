"""The Hive Metastore, spoken to in thrift; the only package that imports it.

`client` is the port's implementation, `pool` keeps its connections, `calls` knows
what differs between versions, `outcome` says what a failed call means,
`convert` turns thrift's structs into the domain's values.
"""

from server.metastore.client import HiveMetastore
from server.metastore.pool import MetastoreSettings

__all__ = ["HiveMetastore", "MetastoreSettings"]
