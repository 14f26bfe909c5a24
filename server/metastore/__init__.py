"""The Hive Metastore client; only this package imports thrift.

`client` implements the port, `pool` manages connections, `calls` handles differences
between versions, `errors` classifies failed calls, and `convert` converts between
thrift's structs and the domain's values.
"""

from server.metastore.client import HiveMetastore
from server.metastore.pool import MetastoreSettings

__all__ = ["HiveMetastore", "MetastoreSettings"]
