"""Pipelines with built tables in a database, and the plan of the next runs of one with many tables."""

from __future__ import annotations

import hashlib
import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench.fleet import quantiles, timed
from bench.fleet_lake import CATALOG
from catalog.commits.writers import Writer
from catalog.jobs.job import JobId
from catalog.names import RelationId, TableName
from catalog.pipelines.pipeline import (
    CheckpointId,
    Pipeline,
    PipelineId,
    PipelineTable,
    PipelineTableId,
    StoredCheckpoint,
    StoredPin,
    name_writer,
)
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import Pointer, Relation
from firn.protocol.pipeline_pins import InputPin
from firn.protocol.pipelines import TableDefinition
from server.api.pipeline_plans import plan_runs
from server.service.services import Services
from server.store.unit_of_work import SqlDatabase

PLANNED_TABLES = 200
_SNAPSHOTS = 200
"""The commits to each input since the checkpoints."""
_ROUNDS = 20
_QUERY = "SELECT t.driver, t.day, sum(t.fare) AS fares FROM {} t WHERE t.status <> 'canceled' GROUP BY t.driver, t.day"
_SUMMARY = {"operation": "append", "added-data-files": "4", "added-files-size": "4096", "added-records": "1000"}


def add_pipeline(uow: UnitOfWork, name: str) -> Pipeline:
    """A pipeline without tables."""
    now = uow.now()
    pipeline = Pipeline(
        id=PipelineId(uuid4()),
        name=name,
        catalog=CATALOG,
        version=1,
        owner=None,
        owner_id=None,
        created_at=now,
        changed_at=now,
    )
    uow.pipelines.put(pipeline)
    return pipeline


def add_table(uow: UnitOfWork, pipeline: Pipeline, target: Relation, source: Relation, snapshot_id: int) -> None:
    """A table of a pipeline that is built at this snapshot of its input."""
    table = PipelineTable(
        id=PipelineTableId(uuid4()),
        pipeline_id=pipeline.id,
        catalog=CATALOG,
        name=target.name,
        definition=_define(target.name, source.name),
    )
    uow.pipelines.put_table(table)
    checkpoint = _pin(pipeline, table, target, source, snapshot_id)
    uow.checkpoints.add(checkpoint)
    uow.writers.add(
        Writer(relation_id=target.id, name=checkpoint.writer, epoch=1, position=checkpoint.id, registered_at=uow.now())
    )


def plan(
    services: Services, database: SqlDatabase, inputs: list[RelationId], targets: list[RelationId], place: Path
) -> dict[str, object]:
    """The plan of many tables with 200 commits to each input, whose metadata files are read at first."""
    place.mkdir()
    with database.writing() as uow:
        for number, relation in enumerate(uow.relations.get_many(inputs).values()):
            _write_metadata(uow, relation, place / f"{number}.json")
        sources = list(uow.relations.get_many(inputs).values())
        pipeline = add_pipeline(uow, "planned")
        for number, target in enumerate(uow.relations.get_many(targets).values()):
            add_table(uow, pipeline, target, sources[number % len(sources)], 1)
    request: Any = services  # what the route gets

    def ask() -> str:
        return plan_runs(request, "planned").model_dump_json()

    first, answer = timed(ask)
    commits = {entry["commits"] for run in json.loads(answer)["tables"] for entry in run["inputs"]}
    began = time.process_time()
    took = [timed(ask)[0] for _ in range(_ROUNDS)]
    cpu = (time.process_time() - began) / _ROUNDS
    return {
        "tables": len(targets),
        "inputs": len(sources),
        "commits": sorted(commits),
        "first_ms": round(1000 * first, 1),
        "plan_ms": quantiles(took),
        "plan_cpu_ms": round(1000 * cpu, 1),
    }


def _write_metadata(uow: UnitOfWork, relation: Relation, path: Path) -> None:
    """Let an input have many snapshots. The current one stays the one that its counters name."""
    newest = uow.stats.get(relation.id).snapshot_id
    ids = [1, *range(10**6, 10**6 + _SNAPSHOTS - 1), newest]
    snapshots = [
        {"snapshot-id": key, "parent-snapshot-id": parent, "timestamp-ms": 0, "summary": _SUMMARY}
        for key, parent in zip(ids, [None, *ids], strict=False)
    ]
    metadata = {"format-version": 2, "current-schema-id": 0, "current-snapshot-id": newest, "snapshots": snapshots}
    path.write_text(json.dumps(metadata))
    uow.relations.move_pointer(relation, Pointer(f"file:{path}", relation.location), uow.now())


def _define(name: TableName, source: TableName) -> TableDefinition:
    return TableDefinition.model_validate(
        {
            "name": str(name),
            "query": _QUERY.format(source),
            "path": f"transformations/{name.name}.sql",
            "line": 1,
            "inputs": [str(source)],
            "key": ["driver", "day"],
            "trigger": {"kind": "commit"},
            "fingerprint": hashlib.sha256(str(name).encode()).hexdigest(),
            "incremental": True,
            "scope": ["driver", "day"],
        }
    )


def _pin(
    pipeline: Pipeline, table: PipelineTable, target: Relation, source: Relation, snapshot_id: int
) -> StoredCheckpoint:
    pin = InputPin(table=str(source.name), table_uuid=str(source.id), keyed=False, version=str(snapshot_id))
    return StoredCheckpoint(
        id=CheckpointId(str(uuid4())),
        table_id=table.id,
        job_id=JobId(uuid4()),
        store_id=target.id,
        writer=name_writer(pipeline.name, table.name),
        fingerprint=table.definition.fingerprint,
        pinned_at=pipeline.created_at,
        kept_until=pipeline.created_at + timedelta(days=14),
        pins=[StoredPin(relation_id=source.id, schema_id=0, pin=pin)],
    )
