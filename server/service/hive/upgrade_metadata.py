"""The metadata that an upgrade starts from: the Hive table's columns and partitions, without files."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from catalog.hive.model import HiveTable
from catalog.iceberg.json import Json
from catalog.iceberg.table import build_table
from server.service.hive.upgrade_check import target_name
from server.service.tables.tables import TableDefinition


def make_definition(table: HiveTable, schema: Json, properties: Mapping[str, str]) -> TableDefinition:
    """A table of that schema, partitioned as Hive's is."""
    ids = {field["name"]: field["id"] for field in schema["fields"]}
    parts = [
        {"source-id": ids[column.name], "field-id": 1000 + at, "name": column.name, "transform": "identity"}
        for at, column in enumerate(table.partition_columns)
    ]
    comment = {"comment": table.parameters["comment"]} if table.parameters.get("comment") else {}
    return TableDefinition(
        name=target_name(table),
        schema=schema,
        partition_spec={"spec-id": 0, "fields": parts} if parts else None,
        properties={"format-version": "2", **comment, **properties},
    )


def build_plain_metadata(definition: TableDefinition, *, location: str, now_ms: int) -> Json:
    """Engines must not expire by themselves what Hive still lists: see catalog.commits.commit_rules."""
    return build_table(
        uuid=str(uuid4()),
        location=location,
        schema=definition.schema,
        partition_spec=definition.partition_spec,
        sort_order=None,
        properties={**definition.properties, "gc.enabled": "false"},
        now_ms=now_ms,
    )
