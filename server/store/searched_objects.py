"""Namespaces, jobs, pipelines and saved queries that a search finds in their own tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Text, select
from sqlalchemy import cast as sql_cast

from catalog.access.privileges import PrincipalId
from catalog.jobs.job import Job
from catalog.names import CatalogName, RelationId, decode_namespace
from catalog.pipelines.pipeline import Pipeline
from catalog.ports.search import FoundNamespace
from catalog.queries.query import SavedQuery
from server.store.job_rows import JobRow
from server.store.jobs import to_job
from server.store.pipeline_rows import PipelineRow
from server.store.pipelines import to_pipeline
from server.store.queries import is_readable_by, to_saved_query
from server.store.query_rows import SavedQueryRow
from server.store.rows import NamespaceRow
from server.store.session import ReadSession


@dataclass(frozen=True)
class SqlSearchedObjects:
    """See catalog.ports.search.SearchedObjects."""

    session: ReadSession

    def jobs_by_id(self, lowest: UUID, highest: UUID, *, limit: int) -> Sequence[Job]:
        """Jobs with an id in a range, newest first."""
        query = select(JobRow).where(JobRow.id.between(lowest, highest))
        return [to_job(row) for row in self.session.scalars(query.order_by(JobRow.number.desc()).limit(limit))]

    def jobs_of(self, relation_ids: Collection[RelationId], *, limit: int) -> Sequence[Job]:
        """The newest jobs of these tables."""
        jobs: list[Job] = []
        for relation_id in relation_ids:  # one short range of an index each
            query = select(JobRow).where(JobRow.subject_id == relation_id).order_by(JobRow.number.desc()).limit(limit)
            jobs += [to_job(row) for row in self.session.scalars(query)]
        return sorted(jobs, key=lambda job: job.created_at, reverse=True)[:limit]

    def namespaces(self, texts: Sequence[str], *, limit: int) -> Sequence[FoundNamespace]:
        """Namespaces by parts of their name and of their properties, which are JSON in ASCII."""
        row = NamespaceRow
        whole = row.path + " " + sql_cast(row.properties, Text)
        query = select(row).where(*(_has(whole, text) for text in texts))
        return [
            FoundNamespace(
                catalog=CatalogName(namespace.catalog),
                namespace=decode_namespace(namespace.path),
                properties=namespace.properties,
            )
            for namespace in self.session.scalars(query.order_by(row.path, row.catalog).limit(limit))
        ]

    def pipelines(self, words: Sequence[str], *, limit: int) -> Sequence[Pipeline]:
        """Pipelines by a part of their name."""
        query = select(PipelineRow).where(*(_has(PipelineRow.name, word) for word in words))
        return [to_pipeline(row) for row in self.session.scalars(query.order_by(PipelineRow.name).limit(limit))]

    def saved_queries(self, owner: PrincipalId | None, words: Sequence[str], *, limit: int) -> Sequence[SavedQuery]:
        """Saved queries by name or statement."""
        name_and_statement = SavedQueryRow.name + " " + SavedQueryRow.statement
        query = select(SavedQueryRow).where(is_readable_by(owner), *(_has(name_and_statement, word) for word in words))
        return [to_saved_query(row) for row in self.session.scalars(query.order_by(SavedQueryRow.name).limit(limit))]


def _has(column: Any, word: str) -> Any:
    return column.icontains(word, autoescape=True)
