"""Makes PyIceberg read and write HDFS through this package.

PyIceberg knows PyArrow's client of HDFS only, which starts a JVM in the process. It chooses its FileIO by the scheme of
the table's location, and a table of another store may name files on HDFS. So Firn's FileIO takes PyArrow's place for
all schemes. PyIceberg loads it by name when a table is opened.
"""

from __future__ import annotations

from pyiceberg.io import ARROW_FILE_IO, SCHEMA_TO_FILE_IO

_NAME = "firn.hdfs.file_io.ArrowHdfsFileIO"


def register_file_io() -> None:
    """Let PyIceberg choose Firn's FileIO in this process. PyIceberg has no setting for it."""
    for names in SCHEMA_TO_FILE_IO.values():
        names[:] = [_NAME if name == ARROW_FILE_IO else name for name in names]
