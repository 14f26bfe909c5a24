"""Whether a directory is erasure coded. The client passes on neither the policy nor that there is one."""

from __future__ import annotations

import contextlib
import secrets

from firn.hdfs.calls import call, connect

_REPLICAS = 2


def is_erasure_coded(directory: str) -> bool:
    """Create an empty file with two replicas and delete it: the name node gives an erasure coded file one.

    An empty file has no block, so no data node is asked. OSError if the name node refuses the file.
    """
    from hdfs_native import WriteOptions  # noqa: PLC0415 - see `calls`

    client, path = connect(directory)
    probe = f"{path.rstrip('/')}/.{secrets.token_hex(8)}.tmp"
    call(lambda: client.create(probe, WriteOptions(replication=_REPLICAS)).close())
    try:
        return call(lambda: client.get_file_info(probe)).replication != _REPLICAS
    finally:
        with contextlib.suppress(OSError, ValueError):
            call(lambda: client.delete(probe), seconds=0)
