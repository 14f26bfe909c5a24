"""A conversion dies at each of its steps, or meets others: its rows come once, and only into an empty table."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import cast

import pytest

from catalog.errors import AlreadyExists, CommitRefused, Conflict, DuplicateBatch, Invalid, LeaseLost, Unavailable
from catalog.hive.conversion_commit import CONVERTED_FROM
from catalog.iceberg.table import current_schema
from catalog.jobs.job import Job, JobStatus
from catalog.keyed.spec import BASE, CHANGE, KeySpec
from catalog.names import TableName
from catalog.ports.store import Database
from server.service.commit.commit_path import CommitRequest
from tests.factories import LAKE
from tests.hive_tables import TEXT, a_storage
from tests.server.faults import FaultyDatabase, Killed
from tests.server.service.hive.beside_hive import BesideHive
from tests.server.service.hive.converted_tables import (
    INPUT,
    Optimizer,
    metadata_of,
    relation_of,
    rows,
    task_of,
    text_table,
)

KEY = KeySpec(primary_key=("id",))


def job_of(beside: BesideHive, job: Job) -> Job:
    with beside.database.reading() as uow:
        return uow.jobs.get(job.id)


def filled(table: TableName, spec: KeySpec | None) -> TableName:
    """The store that a conversion fills."""
    return table if spec is None else TableName(table.as_namespace, BASE)


@pytest.mark.parametrize("spec", [None, KEY])
def test_a_killed_start_is_made_good_by_asking_again(beside: BesideHive, spec: KeySpec | None) -> None:
    died = 0
    while True:
        table = text_table(beside)
        name = filled(beside.table_name(table), spec)
        beside.fuse.left = died + 1
        try:
            beside.conversions.start(LAKE, table.name, spec=spec)
        except Killed:
            died += 1
            beside = beside.restarted()
            try:
                beside.conversions.start(LAKE, table.name, spec=spec)
            except Conflict as error:  # the job was there already
                assert "a convert job is pending" in error.message  # noqa: PT017 -- it need not be raised
        else:
            break
        assert metadata_of(beside, name)["properties"][CONVERTED_FROM] == table.name
        assert rows(beside, name) == []
        Optimizer(beside).work()
        assert rows(beside, name) == ["2"]
        with pytest.raises(AlreadyExists, match=r"is a copy of db\.text\d+ already"):
            beside.conversions.start(LAKE, table.name, spec=spec)
    assert died >= 6  # before and after: namespace, metadata, the table with its job


def test_a_job_is_told_how_hive_reads_its_files(beside: BesideHive) -> None:
    table = text_table(beside, "id bigint; at timestamp", **{"field.delim": ","})
    beside.conversions.start(LAKE, table.name, TableName(("copies",), "text"))
    _, task = Optimizer(beside).take()
    assert (task["parts"], task["source"], task["header_lines"]) == (["copies", "text"], table.name, 1)
    assert [column["type"] for column in task["columns"]] == ["bigint", "timestamp_ntz"]
    assert sorted(unit["values"][0] or "" for unit in task["units"]) == ["", "x"]
    assert {unit["layout"] for unit in task["units"]} == {0}
    assert task["layouts"] == [
        {
            "reader": "serde",
            "serde": TEXT,
            "input_format": INPUT,
            "parameters": {"field.delim": ","},
            "columns": [{"name": "id", "type": "bigint"}, {"name": "at", "type": "timestamp"}],
        }
    ]
    metadata = metadata_of(beside, TableName(("copies",), "text"))
    assert [field["type"] for field in current_schema(metadata)["fields"]] == ["long", "timestamp", "string"]
    assert [field["transform"] for field in metadata["partition-specs"][0]["fields"]] == ["identity"]
    assert relation_of(beside, TableName(("copies",), "text")).hive_name is None


def test_a_dry_run_says_what_would_be_read_and_changes_nothing(beside: BesideHive) -> None:
    table = text_table(beside)
    preview = beside.conversions.preview(LAKE, table.name)
    assert (preview.format, preview.partitions, preview.files, preview.bytes) == ("text", 2, 2, 22)
    assert preview.checks == ()
    assert "neither synced nor published" in preview.notes[0]
    assert "left out" in preview.notes[1]
    assert beside.written() == set()
    beside.conversions.start(LAKE, table.name)
    assert beside.conversions.preview(LAKE, table.name).checks == ()  # it waits for these rows
    Optimizer(beside).work()
    [check] = beside.conversions.preview(LAKE, table.name).checks
    assert (check.code, check.status) == ("name", "blocked")


def test_what_can_be_registered_is_upgraded_instead(beside: BesideHive) -> None:
    table = beside.hive_table()
    with pytest.raises(Invalid, match="stored as PARQUET, whose files need no rewrite"):
        beside.conversions.start(LAKE, table.name)


def test_a_name_that_is_taken_is_left_alone(beside: BesideHive) -> None:
    table, other = text_table(beside), text_table(beside)
    beside.conversions.start(LAKE, table.name)
    with pytest.raises(AlreadyExists, match="has a table named"):
        beside.conversions.start(LAKE, other.name, beside.table_name(table))


@pytest.mark.parametrize("spec", [None, KEY])
def test_an_answer_that_is_lost_does_not_bring_the_rows_twice(beside: BesideHive, spec: KeySpec | None) -> None:
    table = text_table(beside)
    name = filled(beside.table_name(table), spec)
    job, optimizer = beside.conversions.start(LAKE, table.name, spec=spec), Optimizer(beside)
    lease, task = optimizer.take()
    change = optimizer.written(task)
    faulty = FaultyDatabase(beside.database)
    faulty.kill_after_commit()
    beside.services.jobs.begin_commit(lease)
    request = CommitRequest(catalog=LAKE, changes=[change], lease=lease)
    with pytest.raises(Killed):
        replace(beside.services.committer, database=cast("Database", faulty)).commit(request)
    beside.services.committer.commit(request)  # Java asks again with the same request
    assert rows(beside, name) == ["2"]
    with pytest.raises(LeaseLost, match="has committed"):
        beside.services.committer.commit(replace(request, changes=[optimizer.written(task)]))
    with pytest.raises(DuplicateBatch):
        beside.services.committer.commit(CommitRequest(catalog=LAKE, changes=[optimizer.written(task)]))
    beside.services.jobs.report(lease, outcome=None, error=None, result={})
    assert job_of(beside, job).status is JobStatus.SUCCEEDED
    assert rows(beside, name) == ["2"]


@pytest.mark.parametrize("spec", [None, KEY])
@pytest.mark.parametrize(
    ("overrides", "reason"),
    [({"counted": 3}, "counted 3 rows in the Hive table and wrote 2"), ({"operation": "overwrite"}, "one")],
)
def test_other_rows_than_those_counted_are_refused(
    beside: BesideHive, overrides: dict[str, object], reason: str, spec: KeySpec | None
) -> None:
    table = text_table(beside)
    beside.conversions.start(LAKE, table.name, spec=spec)
    optimizer = Optimizer(beside)
    lease, task = optimizer.take()
    change = optimizer.written(task, **overrides)  # type: ignore[arg-type]
    with pytest.raises(CommitRefused, match=reason):
        optimizer.commit(lease, change)
    assert rows(beside, filled(beside.table_name(table), spec)) == []


def test_rows_of_others_are_not_mixed_with_those_of_hive(beside: BesideHive) -> None:
    table = text_table(beside)
    name = beside.table_name(table)
    beside.conversions.start(LAKE, table.name)
    optimizer = Optimizer(beside)
    lease, task = optimizer.take()
    own = {"writer": "me", "batch": "1", "parts": task["parts"]}
    beside.services.committer.commit(CommitRequest(catalog=LAKE, changes=[optimizer.written(own)]))
    with pytest.raises(CommitRefused, match="somebody has written to the table meanwhile"):
        optimizer.commit(lease, optimizer.written(task))
    assert rows(beside, name) == ["2"]


def test_a_keyed_table_is_told_its_key_and_filled_through_its_base_alone(beside: BesideHive) -> None:
    table = text_table(beside)
    name = beside.table_name(table)
    beside.conversions.start(LAKE, table.name, spec=KEY, unique=False)
    optimizer = Optimizer(beside)
    lease, task = optimizer.take()
    assert (task["parts"], task["primary_key"], task["unique"]) == ([*name.as_namespace, BASE], ["id"], False)
    with pytest.raises(CommitRefused, match="a convert job does not append on the change store"):
        optimizer.commit(lease, optimizer.written(task | {"parts": [*name.as_namespace, CHANGE]}))
    metadata = metadata_of(beside, filled(name, KEY))
    assert (metadata["format-version"], metadata["properties"][CONVERTED_FROM]) == (3, table.name)
    assert [field["required"] for field in current_schema(metadata)["fields"]] == [True, False, False]
    beside.services.jobs.cancel(lease.job_id)
    [check] = beside.conversions.preview(LAKE, table.name).checks
    assert check.message == f"{name} was made for these rows with another key, or without one, and is empty"
    with pytest.raises(AlreadyExists, match="with another key"):
        beside.conversions.start(LAKE, table.name, spec=KeySpec(primary_key=("id",), sequence_field="v"))
    assert beside.conversions.preview(LAKE, table.name, spec=KEY).checks == ()
    assert beside.conversions.start(LAKE, table.name, spec=KEY).params["unique"]


def test_changes_that_came_first_are_not_mixed_with_rows_of_hive(beside: BesideHive) -> None:
    table = text_table(beside)
    name = beside.table_name(table)
    beside.conversions.start(LAKE, table.name, spec=KEY)
    optimizer = Optimizer(beside)
    lease, task = optimizer.take()
    own = {"writer": "me", "batch": "1", "parts": [*name.as_namespace, CHANGE]}
    beside.services.committer.commit(CommitRequest(catalog=LAKE, changes=[optimizer.written(own)]))
    with pytest.raises(CommitRefused, match="somebody has written to the table meanwhile"):
        optimizer.commit(lease, optimizer.written(task))
    assert rows(beside, filled(name, KEY)) == []
    beside.services.jobs.cancel(lease.job_id)
    with pytest.raises(AlreadyExists, match="is a copy of"):
        beside.conversions.start(LAKE, table.name, spec=KEY)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (KeySpec(primary_key=("nope",)), "'nope' is not a column of"),
        (KeySpec(primary_key=("d",)), "'d' is a double, whose values cannot be compared exactly"),
        (KeySpec(primary_key=("p",)), "holds nulls"),
        (KeySpec(primary_key=("id",), sequence_field="d"), "cannot be the sequence field"),
        (KeySpec(primary_key=("id",), sequence_field="gone"), "no column 'gone'"),
    ],
)
def test_a_key_that_cannot_be_one_is_refused_before_anything_is_made(
    beside: BesideHive, spec: KeySpec, reason: str
) -> None:
    table = text_table(beside, "id bigint; d double")
    [check] = beside.conversions.preview(LAKE, table.name, spec=spec).checks
    assert (check.status, reason in check.message) == ("blocked", True), check
    with pytest.raises(Invalid, match=re.escape(reason)):
        beside.conversions.start(LAKE, table.name, spec=spec)
    assert beside.written() == set()


def test_hive_is_looked_at_again_when_the_job_is_taken(beside: BesideHive) -> None:
    table = text_table(beside)
    beside.conversions.start(LAKE, table.name)
    beside.metastore.answers = False
    with pytest.raises(Unavailable):  # the lease is put off
        Optimizer(beside).take()
    beside.metastore.answers = True
    now = beside.metastore.table("db", table.short)
    other = a_storage(now.location, "id string; v string", serde=TEXT, input_format=INPUT)
    beside.metastore.add_table(replace(now, storage=other))
    with beside.database.reading() as uow:
        job = uow.jobs.active_of(relation_of(beside, beside.table_name(table)).id)
    assert job is not None
    with pytest.raises(Conflict, match=r"column 'id' of .* has changed in Hive since"):
        task_of(beside, job)


def test_sub_directories_which_the_reader_of_hives_tables_refuses_are_told_before(beside: BesideHive) -> None:
    table = text_table(beside)
    (table.path / "p=x" / "HIVE_UNION_SUBDIR_1").mkdir()
    blocked = [check for check in beside.conversions.preview(LAKE, table.name).checks if check.status == "blocked"]
    assert [blocker.code for blocker in blocked] == ["subdirectories"]
    assert "p=x" in blocked[0].message
