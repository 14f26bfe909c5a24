"""Reads the edges of views and pipelines from their definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from catalog.errors import CatalogError, Invalid
from catalog.history.views import read_version_schema
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from catalog.iceberg.view import current_version
from catalog.lineage.node import Columns, Edge, Node
from catalog.lineage.query_columns import Output, TableParts, list_tables, parse_query, trace_columns
from catalog.names import CatalogName, TableName
from catalog.pipelines.pipeline import Pipeline, PipelineTable
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.lineage import EdgeOrigin, NodeKind
from firn.protocol.pipeline_graph import ColumnLineage
from server.service.tables.metadata_files import MetadataFiles

MOST_TABLES = 200
"""The tables of one view."""
MOST_PAIRS = 20_000
"""Pairs of columns that one edge keeps."""
_Found = Mapping[TableParts, tuple[CatalogName, TableName, Relation | None]]


@dataclass(frozen=True)
class DefinitionReader:
    """Reads what views and pipelines say about themselves."""

    database: Database
    metadata: MetadataFiles

    def read_view(self, view: Relation, now: datetime) -> list[Edge]:
        """The edges of a view; none if no parser knows its SQL. Raises CatalogError if its metadata cannot be read."""
        assert view.metadata_location is not None  # stored views have metadata
        metadata = self.metadata.read(view.metadata_location)
        version = current_version(metadata)
        representation = _choose_representation(version)
        query = parse_query(str(representation.get("sql", "")), str(representation.get("dialect", "")))
        if query is None:
            return []
        tables = self._find_tables(view, version, list_tables(query)[:MOST_TABLES])
        schemas = {parts: self._read_columns(relation) for parts, (_, _, relation) in tables.items()}
        output = trace_columns(query, {parts: names for parts, names in schemas.items() if names is not None})
        columns = _map_columns(output, read_version_schema(metadata, version), tables)
        target = Node.of_relation(view.id)
        edges = []
        for catalog, name in dict.fromkeys((catalog, name) for catalog, name, _ in tables.values()):
            source = Node.of_name(catalog, name)
            own = None if columns is None else _choose_source(columns, source.key)
            edges.append(Edge(source=source, target=target, origin=EdgeOrigin.VIEW, seen_at=now, columns=own))
        return edges

    def _find_tables(self, view: Relation, version: Json, named: Sequence[TableParts]) -> _Found:
        """The first existing table that each name can mean; else the first possible one."""
        namespace = tuple(str(part) for part in version.get("default-namespace") or ())
        candidates = {parts: _list_candidates(view.catalog, namespace, parts) for parts in named}
        with self.database.reading() as uow:
            relations = uow.lineage.find_named([name for names in candidates.values() for name in names])
            keyed = {relation.id: relation for relation in relations.values() if relation.kind is RelationKind.KEYED}
            bases = _find_bases(uow, keyed.values())
        tables = {}
        for parts, names in candidates.items():
            chosen = next((name for name in names if name in relations), names[0] if names else None)
            if chosen is not None:
                relation = relations.get(chosen)
                tables[parts] = (*chosen, None if relation is None else bases.get(relation.id, relation))
        return tables

    def _read_columns(self, relation: Relation | None) -> list[str] | None:
        """The columns of a table or view now; None if nobody can read them."""
        if relation is None or relation.metadata_location is None:
            return None
        try:
            metadata = self.metadata.read(relation.metadata_location)
            if relation.kind is RelationKind.VIEW:
                return _list_names(read_version_schema(metadata, current_version(metadata)))
            return _list_names(current_schema(metadata))
        except (CatalogError, KeyError, TypeError):
            return None


def read_pipeline(pipeline: Pipeline, tables: Sequence[PipelineTable], now: datetime) -> list[Edge]:
    """The edges of a pipeline: from the inputs of each table to its computation, and from there to the table."""
    edges = []
    for table in tables:
        process = Node(NodeKind.PIPELINE, str(table.name), pipeline.name)
        for name in table.definition.inputs:
            source = Node.of_name(pipeline.catalog, TableName.parse(name))
            edges.append(Edge(source=source, target=process, origin=EdgeOrigin.PIPELINE, seen_at=now))
        columns = _map_pipeline_columns(pipeline.catalog, table.definition.lineage)
        target = Node.of_name(table.catalog, table.name)
        edges.append(Edge(source=process, target=target, origin=EdgeOrigin.PIPELINE, seen_at=now, columns=columns))
    return edges


def _map_pipeline_columns(catalog: CatalogName, lineage: Sequence[ColumnLineage]) -> Columns | None:
    columns, left = {}, MOST_PAIRS
    for entry in lineage:
        sources = [
            (Node.of_name(catalog, TableName.parse(source.table)).key, source.column) for source in entry.sources
        ][:left]
        left -= len(sources)
        columns[entry.column] = sources
    return columns or None


def _choose_representation(version: Mapping[str, Any]) -> Mapping[str, Any]:
    """The SQL in Spark's dialect if there is one; all dialects of a version mean the same."""
    representations = [item for item in version.get("representations") or () if isinstance(item, dict)]
    first: Mapping[str, Any] = representations[0] if representations else {}
    return next((item for item in representations if str(item.get("dialect", "")).lower() == "spark"), first)


def _list_candidates(
    catalog: CatalogName, namespace: Sequence[str], parts: TableParts
) -> list[tuple[CatalogName, TableName]]:
    """The tables that a name in a view can mean. Engines name a catalog as they like, so it may be the view's own."""
    options: list[tuple[CatalogName, Sequence[str]]] = []
    if len(parts) == 1:
        options.append((catalog, (*namespace, *parts)))
    else:
        options.append((catalog, parts))
    if len(parts) > 2:
        options += [(CatalogName(parts[0]), parts[1:]), (catalog, parts[1:])]
    names = []
    for within, (*above, name) in options:
        try:
            names.append((within, TableName(tuple(above), name)))
        except Invalid:
            continue
    return names


def _find_bases(uow: UnitOfWork, keyed: Any) -> Mapping[Any, Relation]:
    """The base stores of keyed tables, which have their columns."""
    tables = uow.keyed.get_many([relation.id for relation in keyed])
    bases = uow.relations.get_many([table.base_id for table in tables.values()])
    return {key: bases[table.base_id] for key, table in tables.items() if table.base_id in bases}


def _list_names(schema: Json) -> list[str]:
    return [str(field["name"]) for field in schema.get("fields", ())]


def _map_columns(output: Output | None, schema: Json, tables: _Found) -> Columns | None:
    """The columns of a view by its schema, which may rename those of its query."""
    names = _list_names(schema)
    if output is None or len(names) != len(output):
        return None
    keys = {parts: Node.of_name(catalog, name).key for parts, (catalog, name, _) in tables.items()}
    return {
        name: [(keys[parts], column) for parts, column in sorted(origins) if parts in keys]
        for name, (_, origins) in zip(names, output, strict=True)
    }


def _choose_source(columns: Columns, key: str) -> Columns:
    chosen, left = dict[str, list[tuple[str, str]]](), MOST_PAIRS
    for name, sources in columns.items():
        own = [source for source in sources if source[0] == key][:left]
        left -= len(own)
        if own:
            chosen[name] = own
    return chosen
