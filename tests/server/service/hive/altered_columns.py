"""Columns that one side has added or dropped."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.history.commit import TableCommit
from catalog.hive.checkpoint import PublishPlan, SyncPlan
from catalog.hive.mapping import PROPERTY, build_name_mapping, read_aliases
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from catalog.jobs.job import Job
from catalog.keyed.spec import BASE
from catalog.names import TableName
from server.api.hive_views import load_column_differences
from server.service.commit.commit_path import CommitRequest
from server.service.hive.link_state import update_link
from tests.factories import LAKE
from tests.hive_tables import columns
from tests.server.service.hive.beside_hive import (
    LONG_AGO_NS,
    BesideHive,
    HiveFiles,
)
from tests.server.service.hive.synced_tables import relation_of

Fields = list[dict[str, Any]]


def hive_has(beside: BesideHive, table: HiveFiles, text: str, **comments: str) -> None:
    """Hive's users alter the table's columns."""
    there = beside.metastore.table("db", table.short)
    new_columns = tuple(replace(column, comment=comments.get(column.name)) for column in columns(text))
    beside.metastore.add_table(replace(there, storage=replace(there.storage, columns=new_columns)))


def alter_here(beside: BesideHive, table: HiveFiles, change: Callable[[Fields], object]) -> None:
    """An engine alters the table; it keeps the name mapping as Iceberg's library does."""
    metadata = beside.metadata(table)
    assert metadata is not None
    schema = {**current_schema(metadata), "fields": [dict(field) for field in current_schema(metadata)["fields"]]}
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


def columns_in_hive(beside: BesideHive, table: HiveFiles) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in beside.metastore.table("db", table.short).columns]


def fields_here(beside: BesideHive, table: HiveFiles) -> Fields:
    metadata = beside.metadata(table)
    assert metadata is not None
    return list(current_schema(metadata)["fields"])


def set_hive_policy(beside: BesideHive, table: HiveFiles, **values: str) -> None:
    properties = {f"firn.hive.{key.replace('_', '-')}": value for key, value in values.items()}
    commit(beside, table, [{"action": "set-properties", "updates": properties}])


def changed(column: str, **values: Any) -> Callable[[Fields], object]:
    return lambda fields: next(field for field in fields if field["name"] == column).update(values)


def dropped(name: str) -> Callable[[Fields], object]:
    return lambda fields: fields.remove(next(field for field in fields if field["name"] == name))


def mark_as_published(beside: BesideHive, table: HiveFiles) -> None:
    with beside.database.writing() as uow:
        relation = relation_of(beside, table)
        update_link(uow, relation.id, lambda link: replace(link, published_at=link.synced_at))


def put_file(table: HiveFiles, part: str, file: str, **values: Sequence[Any]) -> None:
    """A file of Hive's with other columns than usual, old enough to be believed."""
    path = table.add(part, 1, file=f"{file}.parquet")
    pq.write_table(pa.table({name: list(those) for name, those in values.items()}), path)
    age = LONG_AGO_NS + next(table.beside.numbers)
    os.utime(path, ns=(age, age))


def shown_differences(beside: BesideHive, table: HiveFiles) -> list[tuple[str | None, str | None, str]]:
    """What people see: Hive's side, this field, and the policy that decides."""
    with beside.database.reading() as uow:
        return [(field.hive, field.here, field.decided_by) for field in load_column_differences(uow, LAKE, table.name)]


def hive_adds(beside: BesideHive, table: HiveFiles) -> None:
    there = "; ".join(f"{name} {kind}" for name, kind in columns_in_hive(beside, table))
    hive_has(beside, table, f"{there}; theirs int")
