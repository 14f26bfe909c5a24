"""Changes what people have written about catalogs, namespaces, tables, views and columns (docs/describing.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catalog.errors import RequirementFailed
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.names import CatalogName, Namespace, TableName
from catalog.tables.column_description import find_fields, put_comments
from catalog.tables.description import COLUMN_LABEL, DescriptionChange, PropertyChange
from catalog.tables.relation import Relation, RelationKind
from server.service.commit.commit_path import CommitRequest, Committer
from server.service.commit.commit_target import load_metadata
from server.service.planning.planner import find_planned_relation
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.namespaces import Namespaces
from server.service.tables.views import Views

_ATTEMPTS = 10
"""How often a change begins anew because somebody altered the columns meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDescriptionChange:
    """A change of a table's description and of those of its columns, by path: `address.city`."""

    table: DescriptionChange
    columns: Mapping[str, DescriptionChange] = field(default_factory=dict)


@dataclass(frozen=True)
class Descriptions:
    """Writes comments, owners and labels. Each change is one commit, or one transaction."""

    metadata: MetadataFiles
    namespaces: Namespaces
    committer: Committer
    views: Views

    def change_catalog(self, catalog: CatalogName, change: DescriptionChange) -> None:
        """Raises NoSuchCatalog."""
        properties = change.list_changes()
        self.namespaces.change_catalog_properties(catalog, updates=properties.updates, removals=properties.removals)

    def change_namespace(self, catalog: CatalogName, namespace: Namespace, change: DescriptionChange) -> None:
        """Raises NoSuchCatalog and NoSuchNamespace."""
        properties = change.list_changes()
        self.namespaces.catalog(catalog)
        self.namespaces.change_properties(catalog, namespace, updates=properties.updates, removals=properties.removals)

    def change_view(self, catalog: CatalogName, view: TableName, change: DescriptionChange) -> None:
        """Raises NoSuchView."""
        if updates := _build_property_updates(change.list_changes()):
            self.views.commit(catalog, TableCommit(name=view, updates=updates))

    def change_table(self, catalog: CatalogName, table: TableName, change: TableDescriptionChange) -> None:
        """Change a plain table, or the base store of a keyed one. Raises NoSuchTable, and NotFound for a column.

        Comments of columns are a new schema. The commit requires the schema that it was made from, so it never undoes
        what somebody else alters at the same time: it begins anew with their columns.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._try_change(catalog, table, change)
                return
            except RequirementFailed:
                if attempt == _ATTEMPTS:
                    raise

    def _try_change(self, catalog: CatalogName, table: TableName, change: TableDescriptionChange) -> None:
        relation = self._find_store(catalog, table)
        properties = change.table.list_changes()
        updates: list[Json] = []
        requirements: list[Json] = []
        if change.columns:
            metadata = load_metadata(self.metadata, relation)
            updates = _build_column_updates(current_schema(metadata), change.columns, properties)
            schema_id = metadata["current-schema-id"]
            requirements = [{"type": "assert-current-schema-id", "current-schema-id": schema_id}]
        updates += _build_property_updates(properties)
        if updates:
            commit = TableCommit(name=relation.name, requirements=requirements, updates=updates)
            self.committer.commit(CommitRequest(catalog=catalog, changes=[commit]))

    def _find_store(self, catalog: CatalogName, table: TableName) -> Relation:
        with self.namespaces.database.reading() as uow:
            relation = find_planned_relation(uow, catalog, table)
            if relation.kind is RelationKind.KEYED:
                return uow.relations.get(uow.keyed.get(relation.id).base_id)
            return relation


def _build_column_updates(
    schema: Json, columns: Mapping[str, DescriptionChange], properties: PropertyChange
) -> list[Json]:
    """The updates that give fields their comments; the labels of fields are added to the properties."""
    ids = find_fields(schema, columns)
    for name, change in columns.items():
        change.list_label_changes(f"{COLUMN_LABEL}{ids[name]}.", properties)
    comments = {ids[name]: change.comment.strip() for name, change in columns.items() if change.comment is not None}
    described = put_comments(schema, comments)
    if described is None:
        return []
    return [{"action": "add-schema", "schema": described}, {"action": "set-current-schema", "schema-id": -1}]


def _build_property_updates(properties: PropertyChange) -> list[Json]:
    updates: list[Json] = []
    if properties.updates:
        updates.append({"action": "set-properties", "updates": properties.updates})
    if properties.removals:
        updates.append({"action": "remove-properties", "removals": sorted(properties.removals)})
    return updates
