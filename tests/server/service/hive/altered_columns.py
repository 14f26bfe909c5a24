"""Columns that one side has added or dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from catalog.history.commit import TableCommit
from catalog.hive.checkpoint import PublishPlan, SyncPlan
from catalog.hive.mapping import PROPERTY, build_name_mapping, read_aliases
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from catalog.jobs.job import Job
from catalog.keyed.spec import BASE
from catalog.names import TableName
from server.service.commit.commit_path import CommitRequest
from tests.factories import LAKE
from tests.hive_tables import columns
from tests.server.service.hive.beside_hive import (
    BesideHive,
    HiveFiles,
)
from tests.server.service.hive.synced_tables import relation_of

Fields = list[dict[str, Any]]


def hive_has(beside: BesideHive, table: HiveFiles, text: str, **comments: str) -> None:
    """Hive's users alter the table's columns."""
    there = beside.metastore.table("db", table.short)
    made = tuple(replace(one, comment=comments.get(one.name)) for one in columns(text))
    beside.metastore.add_table(replace(there, storage=replace(there.storage, columns=made)))


def alter_here(beside: BesideHive, table: HiveFiles, change: Callable[[Fields], object]) -> None:
    """An engine alters the table; it keeps the name mapping as Iceberg's library does."""
    metadata = beside.metadata(table)
    assert metadata is not None
    schema = {**current_schema(metadata), "fields": [dict(one) for one in current_schema(metadata)["fields"]]}
    change(schema["fields"])
    mapping = build_name_mapping(schema, read_aliases(metadata["properties"][PROPERTY]))
    updates: list[Json] = [
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "set-properties", "updates": {PROPERTY: mapping}},
    ]
    commit(beside, table, updates)


def commit(beside: BesideHive, table: HiveFiles, updates: list[Json]) -> None:
    name = beside.table_name(table)
    if relation_of(beside, table).metadata_location is None:
        name = TableName(name.as_namespace, BASE)
    change = TableCommit(name=name, requirements=[], updates=updates)
    beside.services.committer.commit(CommitRequest(catalog=LAKE, changes=[change]))


def added(name: str, kind: str = "string") -> Callable[[Fields], object]:
    return lambda fields: fields.append({"id": 50, "name": name, "required": False, "type": kind})


def staged_for(beside: BesideHive, job: Job | None) -> SyncPlan | PublishPlan:
    """What a job was planned with."""
    assert job is not None
    with beside.database.reading() as uow:
        staged = uow.baselines.staged(job.id)
    assert staged is not None
    return staged
