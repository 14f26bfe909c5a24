"""Definitions of pipelines: users put new versions, list them, and drop pipelines."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from catalog.access.privileges import Principal
from catalog.errors import NotFound
from catalog.names import CatalogName, Namespace, TableName
from catalog.pipelines.pipeline import (
    Pipeline,
    PipelineId,
    PipelineTable,
    PipelineTableId,
    PipelineVersion,
    check_pipeline_name,
)
from catalog.pipelines.versions import parse_definitions
from catalog.ports.page import Page
from catalog.ports.store import Database, UnitOfWork
from firn.protocol.pipelines import PutOut, PutPipeline
from server.service.pipelines.code import check_new_code
from server.service.pipelines.new_version import NewVersion, check_new_version
from server.service.pipelines.targets import end_runs

KEPT_VERSIONS = 1_000
"""The number of versions that the server keeps of a pipeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinedPipeline:
    """A pipeline with its tables."""

    pipeline: Pipeline
    tables: Sequence[PipelineTable]


@dataclass(frozen=True)
class PipelineDefinitions:
    """Stores pipelines; the gate has checked the caller's privileges on targets and inputs."""

    database: Database
    allows_code: bool = True
    """Whether definitions may have Python."""

    def put(self, name: str, body: PutPipeline, author: Principal | None) -> PutOut:
        """Store a new version, and return what it does to each table; a dry run only returns it.

        Raises Invalid and InvalidDefinition for names and definitions that cannot be, NoSuchTable for a missing input,
        NoSuchNamespace, PipelineCycle, AlreadyExists for a target of another pipeline, Conflict for a target with rows
        of others, and StaleDefinition for changed queries without `rebuild`.
        """
        check_pipeline_name(name)
        check_new_code(body, allowed=self.allows_code)
        definitions = parse_definitions(body.tables)
        if body.dry_run:
            with self.database.reading() as uow:
                return _describe(name, check_new_version(uow, name, body, definitions))
        with self.database.writing() as uow:
            uow.pipelines.hold(CatalogName(body.catalog))
            version = check_new_version(uow, name, body, definitions)
            if version.is_different:
                _store(uow, name, body, version, author)
            return _describe(name, version)

    def get(self, name: str) -> DefinedPipeline:
        """Get a pipeline; NotFound."""
        with self.database.reading() as uow:
            pipeline = uow.pipelines.get(name)
            return DefinedPipeline(pipeline=pipeline, tables=uow.pipelines.tables_of([pipeline.id])[pipeline.id])

    def list(self, *, limit: int, cursor: str | None) -> Page[DefinedPipeline]:
        """List pipelines by name."""
        with self.database.reading() as uow:
            page = uow.pipelines.list(limit=limit, cursor=cursor)
            tables = uow.pipelines.tables_of([pipeline.id for pipeline in page.items])
        items = [DefinedPipeline(pipeline=pipeline, tables=tables[pipeline.id]) for pipeline in page.items]
        return Page(items, page.next_cursor)

    def list_new_namespaces(self, catalog: CatalogName, names: Collection[TableName]) -> Sequence[Namespace]:
        """The namespaces in which a pipeline with these targets would create tables."""
        with self.database.reading() as uow:
            missing = [name for name in names if uow.relations.find(catalog, name) is None]
        return sorted({name.namespace for name in missing})

    def get_version(self, name: str, version: int) -> PipelineVersion:
        """Get a version; NotFound."""
        with self.database.reading() as uow:
            return uow.pipelines.get_version(uow.pipelines.get(name).id, version)

    def list_versions(self, name: str, *, limit: int, cursor: str | None) -> Page[PipelineVersion]:
        """List the versions of a pipeline, newest first."""
        with self.database.reading() as uow:
            return uow.pipelines.list_versions(uow.pipelines.get(name).id, limit=limit, cursor=cursor)

    def drop(self, name: str) -> None:
        """Drop a pipeline. Its runs commit nothing after the answer; the tables that it has written stay."""
        with self.database.writing() as uow:
            uow.pipelines.hold(uow.pipelines.get(name).catalog)
            pipeline = uow.pipelines.get(name)
            for table in uow.pipelines.tables_of([pipeline.id])[pipeline.id]:
                end_runs(uow, pipeline, table, f"pipeline {name} was dropped")
            uow.pipelines.remove(pipeline.id)


def build_unknown_pipeline(name: str) -> NotFound:
    """The error for a pipeline that does not exist, or that the caller may not see."""
    return NotFound(f"pipeline {name} does not exist", hint="`firn pipeline list` shows all pipelines")


def _store(uow: UnitOfWork, name: str, body: PutPipeline, new: NewVersion, author: Principal | None) -> None:
    now, before = uow.now(), new.pipeline
    pipeline = Pipeline(
        id=PipelineId(uuid4()) if before is None else before.id,
        name=name,
        catalog=CatalogName(body.catalog),
        version=1 if before is None else before.version + 1,
        owner=None if author is None else author.name,
        owner_id=None if author is None else author.id,
        created_at=now if before is None else before.created_at,
        changed_at=now,
    )
    uow.pipelines.put(pipeline)
    uow.pipelines.add_version(
        PipelineVersion(
            pipeline_id=pipeline.id,
            version=pipeline.version,
            created_at=now,
            author=pipeline.owner,
            files=body.files,
            tables=body.tables,
            deterministic=body.deterministic,
        )
    )
    uow.pipelines.forget_versions(pipeline.id, below=pipeline.version - KEPT_VERSIONS + 1)
    _store_tables(uow, pipeline, new)


def _store_tables(uow: UnitOfWork, pipeline: Pipeline, new: NewVersion) -> None:
    removed = [table for name, table in new.tables.items() if name not in new.definitions]
    for table in removed:
        end_runs(uow, pipeline, table, f"version {pipeline.version} of pipeline {pipeline.name} has no {table.name}")
    uow.pipelines.remove_tables([table.id for table in removed])
    for name, definition in new.definitions.items():
        table = new.tables.get(name) or PipelineTable(
            id=PipelineTableId(uuid4()),
            pipeline_id=pipeline.id,
            catalog=pipeline.catalog,
            name=name,
            definition=definition,
        )
        uow.pipelines.put_table(replace(table, definition=definition))


def _describe(name: str, new: NewVersion) -> PutOut:
    """The answer: the version as it is stored, or in a dry run, as it would be."""
    version = 0 if new.pipeline is None else new.pipeline.version
    return PutOut(name=name, version=version + (1 if new.is_different else 0), tables=list(new.changes))
