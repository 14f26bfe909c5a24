"""Hive tables that cannot be upgraded."""

from __future__ import annotations

from tests.hive_tables import a_hive_table, a_storage
from tests.server.service.hive.beside_hive import BesideHive


def a_text_table(beside: BesideHive, name: str) -> None:
    storage = a_storage("file:/nowhere", "line string", input_format="org.apache.hadoop.mapred.TextInputFormat")
    beside.metastore.add_table(a_hive_table(name=name, storage=storage))
