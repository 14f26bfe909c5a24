"""Collects lineage in the background, so that no commit and no scan waits for it.

Each run reads the views and pipelines that have changed since their edges were stored, and follows the history of
commits and the engines' reports of scans. The database keeps the positions, so another server goes on from there. A
run that is repeated stores the same edges again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta

from catalog.commits.writers import PIPELINE
from catalog.errors import CatalogError
from catalog.history.commit import UPGRADE
from catalog.lineage.node import LONGEST_NAME, Definition, Edge, Node
from catalog.names import CatalogName, RelationId, TableName
from catalog.pipelines.pipeline import PipelineId
from catalog.ports.lineage import CommitGroup, ScanGroup
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from firn.protocol.lineage import EdgeOrigin, NodeKind
from server.service.lineage.definitions import DefinitionReader, read_pipeline

log = logging.getLogger(__name__)

VIEWS = 50
"""Views that one run reads; so many are few milliseconds of a transaction each."""
PIPELINES = 20
FOLLOWED = 5_000
"""Commits, and reports, that one run follows."""
OVERLAP = 100
"""Rows that a run follows again, because PostgreSQL shows rows in another order than their numbers."""
FIRST = 50_000
"""Commits and reports that the first run of a server with an older history begins with."""
REMOVED = 1_000
_RETRY = timedelta(minutes=10)
_COMMITS, _REPORTS = "commits", "reports"
_UNKNOWN = "unknown engine"


@dataclass(frozen=True)
class LineageCollecting:
    """Keeps edges like definitions, commits and scans. Runs of two servers at once are harmless."""

    database: Database
    reader: DefinitionReader
    kept: timedelta
    """Edges that nobody has seen for so long are removed; those of definitions stay with them."""

    def run_once(self) -> int:
        """Read changed definitions, then follow commits and scans; returns the number of changes."""
        done = self._read_views() + self._read_pipelines() + self._remove_gone()
        done += self._follow(_COMMITS, lambda uow: uow.lineage.newest_commit(), _add_commits)
        return done + self._follow(_REPORTS, lambda uow: uow.lineage.newest_report(), _add_scans)

    def remove_expired(self) -> int:
        """Remove edges that nobody has seen for long, in small transactions; returns their number."""
        removed = 0
        while True:
            with self.database.writing() as uow:
                some = uow.lineage.remove_before(uow.now() - self.kept, limit=REMOVED)
            removed += some
            if some < REMOVED:
                return removed

    def _read_views(self) -> int:
        with self.database.reading() as uow:
            now = uow.now()
            views = uow.lineage.changed_views(now, limit=VIEWS)
        for view in views:
            definition = Definition(view.id, view.version)
            edges = self._read_view(view)
            with self.database.writing() as uow:
                if edges is None:
                    uow.lineage.postpone_definition(NodeKind.VIEW, definition, uow.now() + _RETRY)
                elif uow.relations.lock_existing([view.id]):
                    uow.lineage.replace_definition(NodeKind.VIEW, definition, edges)
        return len(views)

    def _read_view(self, view: Relation) -> list[Edge] | None:
        """The edges of a view; None if they cannot be read now. Any engine may have written its metadata."""
        with self.database.reading() as uow:
            now = uow.now()
        try:
            return self.reader.read_view(view, now)
        except CatalogError as error:
            log.warning("the lineage of the view %s cannot be read: %s", view.name, error.message)
        except Exception:
            log.exception("the lineage of the view %s cannot be read", view.name)
        return None

    def _read_pipelines(self) -> int:
        with self.database.reading() as uow:
            if not uow.lineage.changed_pipelines(uow.now(), limit=1):
                return 0
        with self.database.writing() as uow:
            now = uow.now()
            changed = uow.lineage.changed_pipelines(now, limit=PIPELINES)
            ids = [PipelineId(definition.id) for definition in changed]
            pipelines, tables = uow.pipelines.get_many(ids), uow.pipelines.tables_of(ids)
            for pipeline_id, pipeline in pipelines.items():
                edges = read_pipeline(pipeline, tables[pipeline_id], now)
                uow.lineage.replace_definition(NodeKind.PIPELINE, Definition(pipeline.id, pipeline.version), edges)
        return len(changed)

    def _remove_gone(self) -> int:
        with self.database.reading() as uow:
            gone = uow.lineage.gone_definitions(limit=REMOVED)
        if gone:
            with self.database.writing() as uow:
                uow.lineage.remove_definitions(gone)
        return len(gone)

    def _follow(
        self, name: str, newest_of: Callable[[UnitOfWork], int], add: Callable[[UnitOfWork, int, int], int]
    ) -> int:
        with self.database.reading() as uow:
            newest, stored = newest_of(uow), uow.lineage.position(name)
        known = max(0, newest - FIRST) if stored is None else stored
        until = min(newest, known + FOLLOWED)
        if stored is not None and until <= known:
            return 0
        with self.database.writing() as uow:
            added = add(uow, max(0, known - OVERLAP), until)
            uow.lineage.set_position(name, until)
        return added


def _add_commits(uow: UnitOfWork, after: int, until: int) -> int:
    groups = uow.lineage.commits_between(after, until)
    owners = _find_owners(uow, {group.relation_id for group in groups})
    edges = []
    for group in groups:
        if group.relation_id not in owners:
            continue
        if group.engine == UPGRADE:  # the link to Hive is the edge
            continue
        if group.writer_id is not None and group.writer_id.startswith(PIPELINE):
            _touch_pipeline(uow, group)
            continue
        writer = _build_writer(group)
        target = Node.of_relation(owners[group.relation_id])
        edges.append(_observed(writer, target, EdgeOrigin.COMMIT, group))
    uow.lineage.observe(edges)
    return len(edges)


def _touch_pipeline(uow: UnitOfWork, group: CommitGroup) -> None:
    """A run has committed: the edge of its pipeline is still in use."""
    name, _, table = str(group.writer_id).removeprefix(PIPELINE).partition("#")
    pipeline = uow.pipelines.find(name)
    if pipeline is not None and table:
        target = Node.of_name(CatalogName(pipeline.catalog), TableName.parse(table))
        uow.lineage.touch_definition(pipeline.id, target.key, group.last_at)


def _build_writer(group: CommitGroup) -> Node:
    if group.writer_id:
        return Node(NodeKind.WRITER, group.writer_id[:LONGEST_NAME])
    return Node(NodeKind.ENGINE, group.engine or _UNKNOWN)


def _add_scans(uow: UnitOfWork, after: int, until: int) -> int:
    groups = uow.lineage.scans_between(after, until)
    owners = _find_owners(uow, {group.relation_id for group in groups})
    edges = [
        _observed(
            Node.of_relation(owners[group.relation_id]),
            Node(NodeKind.ENGINE, group.engine or _UNKNOWN),
            EdgeOrigin.SCAN,
            group,
        )
        for group in groups
        if group.relation_id in owners
    ]
    uow.lineage.observe(edges)
    return len(edges)


def _observed(source: Node, target: Node, origin: EdgeOrigin, group: CommitGroup | ScanGroup) -> Edge:
    return Edge(source=source, target=target, origin=origin, seen_at=group.last_at, principal=group.principal)


def _find_owners(uow: UnitOfWork, relation_ids: Collection[RelationId]) -> Mapping[RelationId, RelationId]:
    """The tables that people know: for a store its keyed table. Tables that are gone are left out."""
    relations = uow.relations.get_many(relation_ids)
    return {relation_id: relation.owner_id or relation_id for relation_id, relation in relations.items()}
