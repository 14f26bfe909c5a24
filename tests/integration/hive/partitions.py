"""Partitions in a format of their own."""

from __future__ import annotations

from pathlib import Path

from firn.embedded.metastore import EmbeddedMetastore, MetastoreSession
from tests.hive_lake import HiveTable


def add_partition(table: HiveTable, name: str, metastore: EmbeddedMetastore, like: HiveTable) -> Path:
    """A partition in another table's format."""
    path = table.path / f"p={name}"
    path.mkdir()
    table.alter(f"ADD PARTITION (p='{name}') LOCATION 'file:{path}'")
    with MetastoreSession(metastore.port) as hive:
        partition, other = hive.get_partition("db", table.short, [name]), hive.get_table("db", like.short)
        partition.sd.inputFormat, partition.sd.outputFormat = other.sd.inputFormat, other.sd.outputFormat
        partition.sd.serdeInfo = other.sd.serdeInfo
        hive.alter_partition("db", table.short, partition)
    return path
