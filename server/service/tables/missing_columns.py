"""Finds tables with data files that lack a partition column, as Hive writes them.

The column's value is in the table's metadata alone. A client that reads null there instead would return wrong rows
without an error, so the server does not load such a table for it (decision 168).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catalog.errors import Invalid
from catalog.hive.mapping import PROPERTY
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, current_snapshot
from catalog.names import CatalogName, TableName
from catalog.ports.manifest_reading import ColumnSearch
from catalog.ports.store import Database
from catalog.tables.relation import Relation, RelationKind
from server.service.commit.commit_target import load_metadata
from server.service.locations.location_rule import load_file_rule
from server.service.tables.metadata_files import MetadataFiles

_MOST_KNOWN = 1000


@dataclass(frozen=True)
class MissingColumns:
    """Reads manifests, once for each state of a table. Any number of threads may use it at once."""

    database: Database
    metadata: MetadataFiles
    manifests: ColumnSearch
    _known: dict[str, str | None] = field(default_factory=dict)
    """The partition column that a file lacks, by the location of the table's metadata."""

    def refuse(self, catalog: CatalogName, name: TableName, client: str) -> None:
        """Raise Invalid if a data file of the table lacks a partition column. For a keyed table, base's files count:
        Firn has written all others, with all columns.
        """
        table = self._find_table(catalog, name)
        if table is None or table.metadata_location is None:
            return
        if table.metadata_location not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[table.metadata_location] = self._find_column(table)
        column = self._known[table.metadata_location]
        if column is not None:
            raise Invalid(
                f"{client} would read null in column {column} of {name}: files of the table do not contain this "
                "partition column, as is usual in Hive",
                hint="Read the table with another engine.",
            )

    def _find_table(self, catalog: CatalogName, name: TableName) -> Relation | None:
        with self.database.reading() as uow:
            relation = uow.relations.find(catalog, name)
            if relation is None or relation.kind is not RelationKind.KEYED:
                return relation
            return next(store for store in uow.relations.stores_of(relation.id) if store.kind is RelationKind.BASE)

    def _find_column(self, table: Relation) -> str | None:
        metadata = load_metadata(self.metadata, table)
        head, by_spec = current_snapshot(metadata), _list_partition_columns(metadata)
        # Files without field ids need a mapping of names. Firn and engines write ids.
        if head is None or PROPERTY not in (metadata.get("properties") or {}) or not any(by_spec.values()):
            return None
        rule = load_file_rule(self.database, self.metadata.files, table, metadata)
        manifests = self.manifests.confined(rule)
        lines = (line for line in manifests.lines(metadata, head) if not line.has_deletes)
        missing = (manifests.find_missing_column(metadata, line, by_spec) for line in lines)
        field_id = next((field_id for field_id in missing if field_id is not None), None)
        names = {column["id"]: column["name"] for column in current_schema(metadata)["fields"]}
        return None if field_id is None else names.get(field_id, str(field_id))


def _list_partition_columns(metadata: Json) -> Mapping[int, frozenset[int]]:
    """The columns whose values are partition values, by the id of the partition spec."""
    columns = {column["id"] for column in current_schema(metadata)["fields"]}
    return {
        spec["spec-id"]: frozenset(
            part["source-id"]
            for part in spec["fields"]
            if part["transform"] == "identity" and part["source-id"] in columns
        )
        for spec in metadata["partition-specs"]
    }
