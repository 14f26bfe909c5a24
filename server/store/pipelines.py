"""Pipelines with their versions and tables in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from hashlib import sha256
from typing import Any, cast
from uuid import UUID

from sqlalchemy import Table, bindparam, delete, insert, select, text, update
from sqlalchemy.exc import IntegrityError

from catalog.errors import AlreadyExists, NotFound
from catalog.names import CatalogName, TableName, fold_case
from catalog.pipelines.pipeline import Pipeline, PipelineId, PipelineTable, PipelineTableId, PipelineVersion
from catalog.ports.page import Page
from firn.protocol.pipelines import PipelineFile, TableDefinition
from server.store import cursor as cursors
from server.store.job_rows import JobRow
from server.store.pipeline_rows import (
    PipelineBackfillRow,
    PipelineCheckpointRow,
    PipelineHeldRow,
    PipelineNameRow,
    PipelinePinRow,
    PipelineRow,
    PipelineTableRow,
    PipelineVersionRow,
)
from server.store.session import ReadSession
from server.store.upsert import upsert

_FIELDS = tuple(field.name for field in fields(Pipeline))
_AT_ONCE = 1_000
"""The number of values in one statement, which databases limit."""
_TABLE = cast("Table", PipelineRow.__table__)
_POSTPONE = (
    update(_TABLE)
    .where(_TABLE.c.id == bindparam("of"), _TABLE.c.plan_after == bindparam("seen", type_=_TABLE.c.plan_after.type))
    .values(plan_after=bindparam("next_at", type_=_TABLE.c.plan_after.type))
)
_HOLD = text("SELECT pg_advisory_xact_lock(hashtextextended(:catalog, 2))")


@dataclass(frozen=True)
class SqlPipelines:
    """See catalog.ports.pipelines.Pipelines."""

    session: ReadSession

    def hold(self, catalog: CatalogName) -> None:
        """Lock the pipelines of a catalog until the transaction ends (SQLite has one writer at a time)."""
        if self.session.get_bind().dialect.name != "sqlite":
            self.session.execute(_HOLD, {"catalog": catalog})

    def put(self, pipeline: Pipeline) -> None:
        """Insert or replace a pipeline, and request a plan of its runs."""
        values = {name: getattr(pipeline, name) for name in _FIELDS}
        upsert(self.session, PipelineRow, values | {"plan_after": pipeline.changed_at})

    def find(self, name: str) -> Pipeline | None:
        """Find a pipeline by its name."""
        row = self.session.scalar(select(PipelineRow).where(PipelineRow.name == name))
        return None if row is None else to_pipeline(row)

    def get(self, name: str) -> Pipeline:
        """Get a pipeline by its name; NotFound."""
        pipeline = self.find(name)
        if pipeline is None:
            raise NotFound(f"pipeline {name} does not exist", hint="`firn pipeline list` shows all pipelines")
        return pipeline

    def get_by_id(self, pipeline_id: PipelineId) -> Pipeline:
        """Get a pipeline; NotFound."""
        row = self.session.scalar(select(PipelineRow).where(PipelineRow.id == pipeline_id))
        if row is None:
            raise NotFound(f"pipeline {pipeline_id} does not exist any more")
        return to_pipeline(row)

    def get_many(self, pipeline_ids: Collection[PipelineId]) -> Mapping[PipelineId, Pipeline]:
        """Get existing pipelines, in one query."""
        rows = self.session.scalars(select(PipelineRow).where(PipelineRow.id.in_(pipeline_ids)))
        return {PipelineId(row.id): to_pipeline(row) for row in rows}

    def list(self, *, limit: int, cursor: str | None = None) -> Page[Pipeline]:
        """List pipelines by name."""
        query = select(PipelineRow)
        if cursor is not None:
            query = query.where(PipelineRow.name > cursors.decode_texts(cursor, 1)[0])
        rows = self.session.scalars(query.order_by(PipelineRow.name).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].name) if len(rows) > limit else None
        return Page([to_pipeline(row) for row in rows[:limit]], more)

    def remove(self, pipeline_id: PipelineId) -> None:
        """Remove a pipeline with all that belongs to it."""
        query = select(PipelineTableRow.id).where(PipelineTableRow.pipeline_id == pipeline_id)
        self.remove_tables([PipelineTableId(table_id) for table_id in self.session.scalars(query)])
        self.session.execute(delete(PipelineVersionRow).where(PipelineVersionRow.pipeline_id == pipeline_id))
        self.session.execute(delete(PipelineRow).where(PipelineRow.id == pipeline_id))

    def add_version(self, version: PipelineVersion) -> None:
        """Store a new version."""
        row = PipelineVersionRow(
            pipeline_id=version.pipeline_id,
            version=version.version,
            created_at=version.created_at,
            author=version.author,
            files=[file.model_dump(mode="json") for file in version.files],
            tables=[table.model_dump(mode="json") for table in version.tables],
            deterministic=[*version.deterministic],
        )
        self.session.add(row)
        self.session.flush()

    def get_version(self, pipeline_id: PipelineId, version: int) -> PipelineVersion:
        """Get a version; NotFound."""
        of = (PipelineVersionRow.pipeline_id == pipeline_id, PipelineVersionRow.version == version)
        row = self.session.scalar(select(PipelineVersionRow).where(*of))
        if row is None:
            raise NotFound(f"the pipeline has no version {version}")
        return _to_version(row)

    def list_versions(self, pipeline_id: PipelineId, *, limit: int, cursor: str | None = None) -> Page[PipelineVersion]:
        """List versions, newest first."""
        query = select(PipelineVersionRow).where(PipelineVersionRow.pipeline_id == pipeline_id)
        if cursor is not None:
            query = query.where(PipelineVersionRow.version < cursors.decode_number(cursor))
        rows = self.session.scalars(query.order_by(PipelineVersionRow.version.desc()).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].version) if len(rows) > limit else None
        return Page([_to_version(row) for row in rows[:limit]], more)

    def forget_versions(self, pipeline_id: PipelineId, *, below: int) -> None:
        """Remove the versions below this one."""
        old = (PipelineVersionRow.pipeline_id == pipeline_id, PipelineVersionRow.version < below)
        self.session.execute(delete(PipelineVersionRow).where(*old))

    def tables_of(self, pipeline_ids: Collection[PipelineId]) -> Mapping[PipelineId, Sequence[PipelineTable]]:
        """List the tables of pipelines, in one query."""
        query = select(PipelineTableRow).where(PipelineTableRow.pipeline_id.in_(pipeline_ids))
        tables: dict[PipelineId, list[PipelineTable]] = {pipeline_id: [] for pipeline_id in pipeline_ids}
        for row in self.session.scalars(query.order_by(PipelineTableRow.name)):
            tables[PipelineId(row.pipeline_id)].append(_to_table(row))
        return tables

    def list_due(self, now: datetime, *, limit: int) -> Mapping[PipelineId, datetime]:
        """List the pipelines whose runs are to be planned, by an index."""
        columns = select(PipelineRow.id, PipelineRow.plan_after).where(PipelineRow.plan_after <= now)
        rows = self.session.execute(columns.order_by(PipelineRow.plan_after).limit(limit))
        return {PipelineId(pipeline_id): plan_after for pipeline_id, plan_after in rows if plan_after is not None}

    def postpone(self, due: Mapping[PipelineId, datetime], until: Mapping[PipelineId, datetime | None]) -> None:
        """Plan again at these times; compare-and-set by the times of `due`."""
        if until:
            values = [{"of": key, "seen": due[key], "next_at": until[key]} for key in sorted(until)]
            self.session.connection().execute(_POSTPONE, values)

    def request_plans(self, pipeline_ids: Collection[PipelineId] | None, at: datetime) -> None:
        """Plan at a time or earlier. Rows that another transaction has locked are left out, which avoids deadlocks."""
        later = PipelineRow.plan_after > at
        if pipeline_ids is None:
            self.session.execute(update(PipelineRow).where(later).values(plan_after=at))
            return
        ids = sorted(pipeline_ids)
        for start in range(0, len(ids), _AT_ONCE):
            query = select(PipelineRow.id).where(PipelineRow.id.in_(ids[start : start + _AT_ONCE]), later)
            free = self.session.scalars(query.with_for_update(skip_locked=True)).all()
            self.session.execute(update(PipelineRow).where(PipelineRow.id.in_(free)).values(plan_after=at))

    def plan_at(self, pipeline_id: PipelineId, at: datetime) -> None:
        """Plan the next runs of a pipeline at a time."""
        self.session.execute(update(PipelineRow).where(PipelineRow.id == pipeline_id).values(plan_after=at))

    def find_table(self, table_id: UUID) -> PipelineTable | None:
        """Find a table by its id."""
        row = self.session.scalar(select(PipelineTableRow).where(PipelineTableRow.id == table_id))
        return None if row is None else _to_table(row)

    def lock_table(self, table_id: UUID) -> PipelineTable:
        """Get a table, and lock it until the transaction ends; NotFound."""
        query = select(PipelineTableRow).where(PipelineTableRow.id == table_id).with_for_update()
        row = self.session.scalar(query.execution_options(populate_existing=True))
        if row is None:
            raise NotFound("the pipeline no longer has the table")
        return _to_table(row)

    def list_inputs(self, catalog: CatalogName) -> Mapping[TableName, tuple[PipelineId, Sequence[TableName]]]:
        """List the inputs of all tables of a catalog's pipelines, without their queries."""
        columns = select(PipelineTableRow.pipeline_id, PipelineTableRow.name, PipelineTableRow.inputs)
        rows = self.session.execute(columns.where(PipelineTableRow.catalog == catalog).order_by(PipelineTableRow.name))
        return {
            TableName.parse(name): (PipelineId(pipeline_id), [TableName.parse(table) for table in inputs])
            for pipeline_id, name, inputs in rows
        }

    def find_writing(self, catalog: CatalogName, name: TableName) -> PipelineTable | None:
        """Find the table of a pipeline by its target."""
        of = (PipelineTableRow.catalog == catalog, PipelineTableRow.spelled == digest_name(name))
        row = self.session.scalar(select(PipelineTableRow).where(*of))
        return None if row is None else _to_table(row)

    def put_table(self, table: PipelineTable) -> None:
        """Insert or replace a table; AlreadyExists if another one has its target."""
        values: dict[str, Any] = {
            "id": table.id,
            "pipeline_id": table.pipeline_id,
            "catalog": table.catalog,
            "name": str(table.name),
            "spelled": digest_name(table.name),
            "inputs": [*table.definition.inputs],
            "definition": table.definition.model_dump(mode="json"),
        }
        try:
            with self.session.begin_nested():
                upsert(self.session, PipelineTableRow, values)
        except IntegrityError as error:
            raise AlreadyExists(f"another pipeline writes {table.name}") from error
        self._put_names(table)

    def _put_names(self, table: PipelineTable) -> None:
        """Store what a table reads and writes, by which commits find it."""
        self.session.execute(delete(PipelineNameRow).where(PipelineNameRow.table_id == table.id))
        names = {digest_name(table.name), *(digest_name(TableName.parse(name)) for name in table.definition.inputs)}
        same = {"table_id": table.id, "pipeline_id": table.pipeline_id, "catalog": table.catalog}
        self.session.execute(insert(PipelineNameRow), [{"spelled": spelled, **same} for spelled in sorted(names)])

    def remove_tables(self, table_ids: Collection[PipelineTableId]) -> None:
        """Remove tables with their checkpoints and pins; the server forgets their jobs once they are old."""
        self.session.execute(update(JobRow).where(JobRow.subject_id.in_(table_ids)).values(superseded=True))
        for row in (PipelinePinRow, PipelineCheckpointRow, PipelineNameRow, PipelineBackfillRow, PipelineHeldRow):
            self.session.execute(delete(row).where(row.table_id.in_(table_ids)))
        self.session.execute(delete(PipelineTableRow).where(PipelineTableRow.id.in_(table_ids)))


def digest_name(name: TableName) -> str:
    """Digest a name in one spelling: a database's index cannot hold every name."""
    return sha256(fold_case(str(name)).encode()).hexdigest()


def to_pipeline(row: PipelineRow) -> Pipeline:
    """Convert a row."""
    return Pipeline(**{name: getattr(row, name) for name in _FIELDS})


def _to_version(row: PipelineVersionRow) -> PipelineVersion:
    return PipelineVersion(
        pipeline_id=PipelineId(row.pipeline_id),
        version=row.version,
        created_at=row.created_at,
        author=row.author,
        files=[PipelineFile.model_validate(file) for file in row.files],
        tables=[TableDefinition.model_validate(table) for table in row.tables],
        deterministic=row.deterministic,
    )


def _to_table(row: PipelineTableRow) -> PipelineTable:
    return PipelineTable(
        id=PipelineTableId(row.id),
        pipeline_id=PipelineId(row.pipeline_id),
        catalog=CatalogName(row.catalog),
        name=TableName.parse(row.name),
        definition=TableDefinition.model_validate(row.definition),
    )
