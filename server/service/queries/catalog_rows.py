"""The rows of DESCRIBE, SHOW COLUMNS and the like, from the metadata of a table. All values are text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from catalog.errors import NotFound
from catalog.history.create_table import format_spark_type, write_create_table
from catalog.history.schema_text import format_partitioning
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema, ref_snapshot_id
from catalog.keyed.spec import KeyedTable
from catalog.queries.query import QueriedTable
from catalog.tables.relation import Relation
from server.service.queries.catalog_parser import CatalogQuestion, CatalogStatement

Row = Sequence[str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTable:
    """A table with its metadata; that of a keyed one is its base store's."""

    table: QueriedTable
    relation: Relation
    metadata: Json
    keyed: KeyedTable | None = None
    change: Json | None = None
    """The metadata of the change store of a keyed table."""

    @property
    def properties(self) -> dict[str, str]:
        """The properties, as the page of the table shows them."""
        return {str(key): str(value) for key, value in (self.metadata.get("properties") or {}).items()}


COLUMNS: dict[CatalogQuestion, tuple[str, ...]] = {
    CatalogQuestion.CATALOGS: ("catalog",),
    CatalogQuestion.NAMESPACES: ("namespace",),
    CatalogQuestion.TABLES: ("namespace", "name", "kind"),
    CatalogQuestion.VIEWS: ("namespace", "name", "kind"),
    CatalogQuestion.COLUMNS: ("col_name",),
    CatalogQuestion.PROPERTIES: ("key", "value"),
    CatalogQuestion.CREATE_TABLE: ("createtab_stmt",),
    CatalogQuestion.DESCRIBE: ("col_name", "data_type", "nullable", "comment"),
    CatalogQuestion.EXTENDED: ("col_name", "data_type", "nullable", "comment"),
    CatalogQuestion.HISTORY: (
        *("snapshot_id", "committed_at", "operation", "refs"),
        *("added_records", "deleted_records", "total_records", "store"),
    ),
    CatalogQuestion.NAMESPACE: ("key", "value"),
}


def list_table_rows(statement: CatalogStatement, described: DescribedTable) -> Iterator[Row]:
    """The rows of a statement about a table; NotFound for a column or property that it does not have."""
    match statement.question:
        case CatalogQuestion.COLUMNS:
            return ((field["name"],) for field in current_schema(described.metadata)["fields"])
        case CatalogQuestion.PROPERTIES:
            return _list_properties(described, statement.item)
        case CatalogQuestion.CREATE_TABLE:
            name = (*described.table.name.namespace, described.table.name.name)
            properties = _key_properties(described) | described.properties
            return iter([(write_create_table(name, described.metadata, properties),)])
        case CatalogQuestion.HISTORY:
            return _list_history(described)
        case _:
            is_extended = statement.question is CatalogQuestion.EXTENDED
            return _describe(described, statement.item, is_extended=is_extended)


def _list_properties(described: DescribedTable, key: str | None) -> Iterator[Row]:
    properties = described.properties
    if key is None:
        return iter(sorted(properties.items()))
    if key not in properties:
        raise NotFound(f"{described.table.name} has no property {key[:200]}")
    return iter([(key, properties[key])])


def _describe(described: DescribedTable, column: str | None, *, is_extended: bool) -> Iterator[Row]:
    fields: list[dict[str, Any]] = list(current_schema(described.metadata)["fields"])
    if column is not None:
        fields = [field for field in fields if field["name"] == column] or [
            field for field in fields if field["name"].casefold() == column.casefold()
        ]
        if not fields:
            raise NotFound(f"{described.table.name} has no column {column[:200]}")
    rows: list[Row] = [_describe_column(field) for field in fields]
    if column is None:
        rows += _list_section("# Partitioning", _number_parts(format_partitioning(described.metadata)))
    if is_extended:
        rows += _list_section("# Table", _list_facts(described))
        rows += _list_section("# Properties", sorted(described.properties.items()))
    return iter(rows)


def _describe_column(field: dict[str, Any]) -> Row:
    return (field["name"], format_spark_type(field["type"]), str(not field.get("required")).lower(), field.get("doc"))


def _number_parts(parts: Sequence[str]) -> list[tuple[str, str]]:
    """The parts of a partitioning with the names that Spark gives them."""
    return [(f"Part {number}", part) for number, part in enumerate(parts)]


def _list_section(title: str, entries: Sequence[tuple[str, str | None]]) -> list[Row]:
    rows = [(name, value, "", "") for name, value in entries if value is not None]
    return [(title, "", "", ""), *rows] if rows else []


def _list_facts(described: DescribedTable) -> list[tuple[str, str | None]]:
    keyed, metadata, relation = described.keyed, described.metadata, described.relation
    return [
        ("Catalog", described.table.catalog),
        ("Name", str(described.table.name)),
        ("Kind", "plain" if keyed is None else "keyed"),
        ("Primary key", None if keyed is None else ", ".join(keyed.spec.primary_key)),
        ("Sequence field", None if keyed is None else keyed.spec.sequence_field),
        ("Location", relation.location),
        ("Format version", str(metadata.get("format-version"))),
        ("Snapshot", _format_id(ref_snapshot_id(metadata, "main"))),
        ("Created at", relation.created_at.isoformat(sep=" ")),
    ]


def _key_properties(described: DescribedTable) -> dict[str, str]:
    return {} if described.keyed is None else described.keyed.spec.to_properties()


def _list_history(described: DescribedTable) -> Iterator[Row]:
    stores = [("" if described.keyed is None else "base", described.metadata)]
    if described.change is not None:
        stores.append(("change", described.change))
    snapshots = [(snapshot, metadata, role) for role, metadata in stores for snapshot in metadata.get("snapshots", ())]
    snapshots.sort(key=lambda entry: (entry[0]["timestamp-ms"], entry[0].get("sequence-number", 0)), reverse=True)
    return (_describe_snapshot(*entry) for entry in snapshots)


def _describe_snapshot(snapshot: dict[str, Any], metadata: Json, role: str) -> Row:
    summary = {str(key): str(value) for key, value in (snapshot.get("summary") or {}).items()}
    refs = (metadata.get("refs") or {}).items()
    return (
        str(snapshot["snapshot-id"]),
        datetime.fromtimestamp(snapshot["timestamp-ms"] / 1000, UTC).isoformat(sep=" "),
        summary.get("operation"),
        ", ".join(name for name, ref in refs if ref["snapshot-id"] == snapshot["snapshot-id"]),
        *(summary.get(name) for name in ("added-records", "deleted-records", "total-records")),
        role or None,
    )


def _format_id(snapshot_id: int | None) -> str | None:
    return None if snapshot_id is None else str(snapshot_id)
