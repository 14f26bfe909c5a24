"""Columns and partition values of a linked table, by Hive's name and by the table's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catalog.hive.mapping import PROPERTY as NAME_MAPPING
from catalog.hive.mapping import read_aliases
from catalog.hive.model import HiveColumn, HiveTable
from catalog.hive.partition_names import NULL_NAME, parse_partition_name
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from catalog.keyed.spec import KeySpec


def describe_values(table: HiveTable, name: str) -> list[str | None]:
    """A partition's values as Hive spells them, None for null; a dropped one's are in its name alone."""
    columns = table.partition_columns
    return [None if value == NULL_NAME else value for value in parse_partition_name(columns, name)] if columns else []


def current_names(base: Json) -> dict[str, str]:
    """The name that each Hive column has in the table now: Firn's side may have renamed it."""
    by_id = {field["id"]: field["name"] for field in current_schema(base)["fields"]}
    mapping = base["properties"].get(NAME_MAPPING)
    aliases = read_aliases(mapping) if mapping else []
    names = {alias.lower(): by_id[field_id] for field_id, alias in aliases if field_id in by_id}
    return {**names, **{name.lower(): name for name in by_id.values()}}


def as_hive_calls(base: Json, columns: Sequence[HiveColumn]) -> Json:
    """The table's schema, with its columns called what Hive's files call them."""
    names = current_names(base)
    called = {names[column.name.lower()]: column.name for column in columns if column.name.lower() in names}
    schema = current_schema(base)
    return schema | {
        "fields": [field | {"name": called.get(field["name"], field["name"])} for field in schema["fields"]]
    }


def describe_column(column: HiveColumn, names: Mapping[str, str]) -> Json:
    """Describe a column for the optimizer; `name` is None if the table has dropped the column."""
    return {"hive": column.name, "type": column.type, "name": names.get(column.name.lower())}


def list_key_columns(table: HiveTable, spec: KeySpec | None, schema: Json) -> list[Json]:
    """The fields of columns in files that must not hold nulls: the key columns and the sequence field."""
    if spec is None:
        return []
    in_files = {column.name for column in table.columns} & {*spec.primary_key, spec.sequence_field}
    return [column for column in schema["fields"] if column["name"] in in_files]
