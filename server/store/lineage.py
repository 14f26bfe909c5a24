"""The lineage graph in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, and_, delete, exists, func, or_, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import InstrumentedAttribute, defer

from catalog.lineage.node import Definition, Edge, Node, StoredEdge
from catalog.names import CatalogName, RelationId, TableName, encode_namespace
from catalog.ports.lineage import CommitGroup, ScanGroup
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.lineage import EdgeOrigin, NodeKind
from server.store.lineage_rows import LineageDefinitionRow, LineageEdgeRow, LineageNodeRow, LineagePositionRow
from server.store.pipeline_rows import PipelineRow
from server.store.relations import to_relation
from server.store.rows import CommitEventRow, MetricsReportRow, RelationRow
from server.store.session import ReadSession
from server.store.upsert import insert_unless_taken, upsert

T = TypeVar("T")
OBSERVED = UUID(int=0)
"""In place of a definition: somebody has seen the edge."""
_AT_ONCE = 500
"""The number of values in one statement, which databases limit."""


@dataclass(frozen=True)
class SqlLineage:
    """See catalog.ports.lineage.Lineage."""

    session: ReadSession

    def nodes(self, keys: Collection[str]) -> Mapping[str, Node]:
        """The nodes with these keys."""
        nodes = dict[str, Node]()
        for some in _in_parts(sorted(keys)):
            rows = self.session.scalars(select(LineageNodeRow).where(LineageNodeRow.key.in_(some)))
            nodes |= {row.key: _to_node(row) for row in rows}
        return nodes

    def edges_into(self, keys: Collection[str], *, limit: int, with_columns: bool) -> Sequence[StoredEdge]:
        """The newest edges to these nodes."""
        return self._edges(LineageEdgeRow.target, keys, limit, with_columns=with_columns)

    def edges_from(self, keys: Collection[str], *, limit: int, with_columns: bool) -> Sequence[StoredEdge]:
        """The newest edges from these nodes."""
        return self._edges(LineageEdgeRow.source, keys, limit, with_columns=with_columns)

    def _edges(
        self, end: InstrumentedAttribute[str], keys: Collection[str], limit: int, *, with_columns: bool
    ) -> Sequence[StoredEdge]:
        row, edges = LineageEdgeRow, list[StoredEdge]()
        for some in _in_parts(sorted(keys)):
            query = select(row, row.columns.is_not(None)).where(end.in_(some))
            query = query if with_columns else query.options(defer(row.columns))
            order = (row.definition_id == OBSERVED, row.last_seen.desc())  # many writers do not hide a view
            rows = self.session.execute(query.order_by(*order).limit(limit - len(edges)))
            edges += [_to_edge(edge, has_columns=has_columns, with_columns=with_columns) for edge, has_columns in rows]
            if len(edges) >= limit:
                break
        return edges

    def find_named(
        self, names: Collection[tuple[CatalogName, TableName]]
    ) -> Mapping[tuple[CatalogName, TableName], Relation]:
        """The tables and views with these names."""
        row, relations = RelationRow, dict[tuple[CatalogName, TableName], Relation]()
        keys = sorted({(catalog, encode_namespace(name.namespace), name.name) for catalog, name in names})
        for some in _in_parts(keys):
            query = select(row).where(tuple_(row.catalog, row.namespace, row.name).in_(some))
            for relation in map(to_relation, self.session.scalars(query)):
                relations[relation.catalog, relation.name] = relation
        return relations

    def observe(self, edges: Sequence[Edge]) -> None:
        """Add edges, or move their `last_seen`; in one order, so that two transactions do not block each other."""
        self._put(edges, OBSERVED)

    def _put(self, edges: Sequence[Edge], definition_id: UUID) -> None:
        nodes = {node.key: node for edge in edges for node in (edge.source, edge.target)}
        for key in sorted(nodes):
            insert_unless_taken(self.session, LineageNodeRow, _node_values(nodes[key]))
        for edge in sorted(edges, key=lambda edge: (edge.source.key, edge.target.key)):
            self._put_edge(edge, definition_id)

    def _put_edge(self, edge: Edge, definition_id: UUID) -> None:
        row, is_sqlite = LineageEdgeRow, self.session.get_bind().dialect.name == "sqlite"
        statement = (sqlite.insert if is_sqlite else postgresql.insert)(row).values(
            source=edge.source.key,
            target=edge.target.key,
            origin=edge.origin,
            definition_id=definition_id,
            first_seen=edge.seen_at,
            last_seen=edge.seen_at,
            principal=edge.principal,
            columns=_encode_columns(edge),
        )
        new = statement.excluded
        changes: dict[str, Any] = {
            "last_seen": func.max(row.last_seen, new.last_seen)
            if is_sqlite
            else func.greatest(row.last_seen, new.last_seen),
            "principal": func.coalesce(new.principal, row.principal),
        }
        if edge.columns is not None:
            changes["columns"] = new["columns"]
        keys = ["source", "target", "origin", "definition_id"]
        self.session.execute(statement.on_conflict_do_update(index_elements=keys, set_=changes))

    def count_edges_at(self, keys: Collection[str], origin: EdgeOrigin) -> Mapping[str, int]:
        """Count edges at nodes."""
        counts = dict.fromkeys(keys, 0)
        for end in (LineageEdgeRow.source, LineageEdgeRow.target):
            for some in _in_parts(sorted(keys)):
                query = select(end, func.count()).where(end.in_(some), LineageEdgeRow.origin == origin)
                for key, count in self.session.execute(query.group_by(end)):
                    counts[key] += count
        return counts

    def existing_edges(self, edges: Sequence[Edge]) -> Collection[tuple[str, str]]:
        """Those observed edges that are stored already."""
        row, existing = LineageEdgeRow, set[tuple[str, str]]()
        keys = sorted({(edge.source.key, edge.target.key, str(edge.origin)) for edge in edges})
        for some in _in_parts(keys):
            query = select(row.source, row.target).where(
                tuple_(row.source, row.target, row.origin).in_(some), row.definition_id == OBSERVED
            )
            existing |= {(source, target) for source, target in self.session.execute(query)}
        return existing

    def count_of_sender(self, principal: str | None, origin: EdgeOrigin, *, limit: int) -> int:
        """Count a principal's edges up to a limit."""
        row = LineageEdgeRow
        sent = row.principal.is_(None) if principal is None else row.principal == principal
        some = select(row.id).where(row.origin == origin, sent).limit(limit).subquery()
        return self.session.scalar(select(func.count()).select_from(some)) or 0

    def replace_definition(self, kind: str, definition: Definition, edges: Sequence[Edge]) -> None:
        """Store the edges of a definition instead of the earlier ones."""
        self._remove_edges([definition.id])
        self._put(edges, definition.id)
        values = {"id": definition.id, "kind": kind, "version": definition.version, "retry_at": None}
        upsert(self.session, LineageDefinitionRow, values)

    def postpone_definition(self, kind: str, definition: Definition, until: datetime) -> None:
        """Read a definition again later."""
        upsert(
            self.session,
            LineageDefinitionRow,
            {"id": definition.id, "kind": kind, "version": -1, "retry_at": until},
        )

    def changed_views(self, now: datetime, *, limit: int) -> Sequence[Relation]:
        """Views to read, by the index of views."""
        row, known = RelationRow, LineageDefinitionRow
        query = (
            select(row)
            .outerjoin(known, known.id == row.id)
            .where(row.kind == RelationKind.VIEW, _is_due(known.version, row.version, now))
        )
        return [to_relation(view) for view in self.session.scalars(query.order_by(row.id).limit(limit))]

    def changed_pipelines(self, now: datetime, *, limit: int) -> Sequence[Definition]:
        """Pipelines to read."""
        row, known = PipelineRow, LineageDefinitionRow
        query = select(row.id, row.version).outerjoin(known, known.id == row.id)
        query = query.where(_is_due(known.version, row.version, now)).order_by(row.id).limit(limit)
        return [Definition(pipeline_id, version) for pipeline_id, version in self.session.execute(query)]

    def gone_definitions(self, *, limit: int) -> Sequence[UUID]:
        """Definitions that do not exist any more."""
        known = LineageDefinitionRow
        gone = or_(
            and_(known.kind == NodeKind.VIEW, ~exists().where(RelationRow.id == known.id)),
            and_(known.kind == NodeKind.PIPELINE, ~exists().where(PipelineRow.id == known.id)),
        )
        return self.session.scalars(select(known.id).where(gone).limit(limit)).all()

    def remove_definitions(self, definition_ids: Sequence[UUID]) -> None:
        """Remove the edges of definitions."""
        for some in _in_parts(definition_ids):
            self._remove_edges(some)
            self.session.execute(delete(LineageDefinitionRow).where(LineageDefinitionRow.id.in_(some)))

    def _remove_edges(self, definition_ids: Sequence[UUID]) -> None:
        self.session.execute(delete(LineageEdgeRow).where(LineageEdgeRow.definition_id.in_(definition_ids)))

    def touch_definition(self, definition_id: UUID, target: str, at: datetime) -> None:
        """Move `last_seen` of a pipeline's edge to a table."""
        row = LineageEdgeRow
        which = (row.definition_id == definition_id, row.target == target, row.last_seen < at)
        self.session.execute(update(row).where(*which).values(last_seen=at))

    def position(self, name: str) -> int | None:
        """A stored position."""
        return self.session.scalar(select(LineagePositionRow.position).where(LineagePositionRow.name == name))

    def set_position(self, name: str, position: int) -> None:
        """Store a position."""
        upsert(self.session, LineagePositionRow, {"name": name, "position": position})

    def newest_commit(self) -> int:
        """The newest commit's number."""
        return self.session.scalar(select(func.max(CommitEventRow.id))) or 0

    def newest_report(self) -> int:
        """The newest report's number."""
        return self.session.scalar(select(func.max(MetricsReportRow.id))) or 0

    def commits_between(self, after: int, until: int) -> Sequence[CommitGroup]:
        """Group commits of snapshots; those of optimizers' jobs only if a writer is named, as by runs of pipelines."""
        row = CommitEventRow
        who = (row.relation_id, row.engine, row.writer_id, row.principal)
        query = select(*who, func.max(row.committed_at, type_=row.committed_at.type)).where(
            row.id > after,
            row.id <= until,
            row.snapshot_id.is_not(None),
            or_(row.job_id.is_(None), row.writer_id.is_not(None)),
        )
        return [
            CommitGroup(
                relation_id=RelationId(relation), engine=engine, writer_id=writer, principal=principal, last_at=at
            )
            for relation, engine, writer, principal, at in self.session.execute(query.group_by(*who))
        ]

    def scans_between(self, after: int, until: int) -> Sequence[ScanGroup]:
        """Group reports of scans."""
        row = MetricsReportRow
        who = (row.relation_id, row.engine, row.principal)
        query = select(*who, func.max(row.at, type_=row.at.type))
        query = query.where(row.id > after, row.id <= until, row.kind == "scan-report").group_by(*who)
        return [
            ScanGroup(relation_id=RelationId(relation), engine=engine, principal=principal, last_at=at)
            for relation, engine, principal, at in self.session.execute(query)
        ]

    def remove_before(self, moment: datetime, *, limit: int) -> int:
        """Remove observed edges, and nodes without edges."""
        row = LineageEdgeRow
        old = (row.last_seen < moment, row.definition_id == OBSERVED)
        rows = self.session.execute(select(row.id, row.source, row.target).where(*old).limit(limit)).all()
        self.session.execute(delete(row).where(row.id.in_([edge_id for edge_id, _, _ in rows])))
        keys = sorted({key for _, source, target in rows for key in (source, target)})
        for some in _in_parts(keys):
            node = LineageNodeRow
            is_used = exists().where(or_(row.source == node.key, row.target == node.key))
            self.session.execute(delete(node).where(node.key.in_(some), ~is_used))
        return len(rows)


def _is_due(
    known: InstrumentedAttribute[int], current: InstrumentedAttribute[int], now: datetime
) -> ColumnElement[bool]:
    retry_at = LineageDefinitionRow.retry_at
    return and_(or_(known.is_(None), known != current), or_(retry_at.is_(None), retry_at <= now))


def _in_parts(values: Sequence[T]) -> Sequence[Sequence[T]]:
    return [values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE)]


def _encode_columns(edge: Edge) -> dict[str, Any] | None:
    if edge.columns is None:
        return None
    return {column: [list(source) for source in sources] for column, sources in edge.columns.items()}


def _node_values(node: Node) -> dict[str, Any]:
    return {
        "key": node.key,
        "kind": node.kind,
        "within": node.within,
        "namespace": node.namespace,
        "name": node.name,
        "relation_id": node.relation_id,
    }


def _to_node(row: LineageNodeRow) -> Node:
    relation_id = None if row.relation_id is None else RelationId(row.relation_id)
    return Node(NodeKind(row.kind), row.name, row.within, row.namespace, relation_id)


def _to_edge(row: LineageEdgeRow, *, has_columns: bool, with_columns: bool) -> StoredEdge:
    columns = None
    if with_columns and row.columns is not None:
        columns = {column: [(source, name) for source, name in sources] for column, sources in row.columns.items()}
    return StoredEdge(
        id=row.id,
        source=row.source,
        target=row.target,
        origin=EdgeOrigin(row.origin),
        first_seen=row.first_seen,
        last_seen=row.last_seen,
        principal=row.principal,
        has_columns=has_columns,
        columns=columns,
    )
