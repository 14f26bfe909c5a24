"""Versions of pipelines: what a new one does, and what the server refuses."""

from __future__ import annotations

import pytest

from catalog.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    InvalidDefinition,
    NoSuchCatalog,
    NoSuchNamespace,
    NoSuchTable,
    NotFound,
    PipelineCycle,
    StaleDefinition,
)
from catalog.jobs.job import JobStatus
from catalog.names import TableName
from server.service.tables.views import ViewDefinition
from tests.factories import LAKE
from tests.server.guarded import SQL
from tests.server.lake import COLUMNS, PLAIN
from tests.server.service.pipelines.stage import DAILY, DEFINED, RANK, RANKED, PipelineStage

OTHER = {**DEFINED, "fingerprint": "c" * 64}


def test_a_version_is_stored_once_and_shown(stage: PipelineStage) -> None:
    first = stage.put(DEFINED, RANKED)
    assert (first.version, [(change.table, change.change) for change in first.tables]) == (
        1,
        [("mart.daily", "new"), ("mart.rank", "new")],
    )
    again = stage.put(DEFINED, RANKED)
    assert (again.version, {change.change for change in again.tables}) == (1, {"unchanged"})
    moved = stage.put({**DEFINED, "line": 7}, RANKED)
    assert (moved.version, {change.change for change in moved.tables}) == (2, {"unchanged"})
    defined = stage.lake.services.pipelines.get("orders")
    assert (defined.pipeline.version, [table.name for table in defined.tables]) == (2, [DAILY, RANK])
    page = stage.lake.services.pipelines.list_versions("orders", limit=9, cursor=None)
    assert [version.version for version in page.items] == [2, 1]
    assert stage.lake.services.pipelines.get_version("orders", 1).tables[0].line == 1
    with pytest.raises(NotFound, match="no version 3"):
        stage.lake.services.pipelines.get_version("orders", 3)


def test_columns_of_a_table_of_others_are_filled(stage: PipelineStage) -> None:
    """The table exists before the pipeline, has rows of others, and may be read: only its own query fills it."""
    fills = {**DEFINED, "mode": "columns", "columns": ["n"], "inputs": ["db.plain", "mart.daily"]}
    for create in (None, "plain"):
        if create is not None:
            stage.lake.create(DAILY)
        with pytest.raises(Conflict, match=r"mart\.daily is no table with a key"):
            stage.put(fills)
    stage.lake.services.tables.drop(LAKE, DAILY)
    stage.create_target()
    stage.lake.append(TableName(DAILY.as_namespace, "change"))
    with pytest.raises(Conflict, match="has rows that the pipeline has not written"):
        stage.put(DEFINED)
    assert stage.put(fills).tables[0].change == "new"
    attempt = stage.begin()
    assert [stored.pin.table for stored in attempt.pin().until.pins] == ["db.plain", "mart.daily"]
    with pytest.raises(PipelineCycle):  # another table in between starts the runs in turn
        stage.put({**fills, "inputs": ["mart.rank"]}, RANKED)


@pytest.mark.parametrize("mode", ["upsert", "columns"])
@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"firn.sequence-field": "note"}, r"mart\.daily has the sequence field note \(firn\.sequence-field\)"),
        ({"firn.insert-only": "true"}, r"mart\.daily is insert-only \(firn\.insert-only\)"),
    ],
)
def test_a_table_that_would_ignore_computed_rows_is_refused_by_put_and_by_a_run(
    stage: PipelineStage, properties: dict[str, str], message: str, mode: str
) -> None:
    """The optimizer refused it, after it had computed the rows."""
    fills = {**DEFINED, "mode": mode, **({"columns": ["n"]} if mode == "columns" else {})}
    stage.lake.create_keyed(DAILY, **properties)
    for dry_run in (True, False):
        with pytest.raises(Conflict, match=message):
            stage.put(fills, dry_run=dry_run)
    stage.lake.services.drop(LAKE, DAILY)
    stage.put()
    attempt = stage.begin()
    stage.lake.create_keyed(DAILY, **properties)
    with pytest.raises(Conflict, match=message):
        stage.lake.services.pipeline_runs.build_task(stage.job(attempt.lease.job_id))
    with pytest.raises(Conflict, match=message):
        attempt.pin()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mode": "append", "key": []}, "mode: append needs an input that is read as a stream"),
        ({"mode": "upsert", "key": []}, "mode: upsert needs a key"),
        ({"streams": [{"table": "db.plain"}]}, "mode: upsert reads whole tables, and db.plain is a stream"),
        ({"mode": "append", "key": [], "streams": [{"table": "db.x"}]}, "the stream db.x is no input of the query"),
        ({"columns": ["n"]}, "mode: columns names the columns"),
        ({"mode": "columns", "columns": ["id"]}, "the key column id cannot be filled"),
    ],
)
def test_settings_of_the_output_fit_together(stage: PipelineStage, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidDefinition, match=message):
        stage.put({**DEFINED, **changes})


def test_a_table_may_accept_rebuilds_in_advance(stage: PipelineStage) -> None:
    stage.put()
    stage.create_target()
    stage.build()
    assert stage.put({**OTHER, "on_change": "rebuild"}).tables[0].change == "rebuild"


def test_new_columns_need_no_rebuild(stage: PipelineStage) -> None:
    """The columns that readers know keep their values. A claim about a query that is not the built one is none."""
    stage.put()
    stage.create_target()
    stage.build()
    with pytest.raises(StaleDefinition):
        stage.put({**OTHER, "extends": "d" * 64})
    wider = {**OTHER, "extends": DEFINED["fingerprint"]}
    assert stage.put(wider, dry_run=True).tables[0].change == "columns"
    assert stage.put(wider).tables[0].change == "columns"
    assert stage.view().state == "rebuild"
    pinned = stage.begin().pin("c" * 64)
    assert (pinned.since, pinned.is_fallback) == (None, False)


def test_a_dry_run_stores_nothing(stage: PipelineStage) -> None:
    assert stage.put(dry_run=True).version == 1
    with pytest.raises(NotFound):
        stage.lake.services.pipelines.get("orders")


def test_a_changed_query_of_a_built_table_has_to_be_accepted(stage: PipelineStage) -> None:
    """The first run after it computes all rows, which costs more than its author may know."""
    stage.put()
    assert stage.put(OTHER).tables[0].change == "new"
    stage.put(DEFINED)
    stage.create_target()
    stage.build()
    assert stage.put(OTHER, dry_run=True).tables[0].change == "rebuild"
    with pytest.raises(StaleDefinition, match=r"mart\.daily \(transformations/daily\.sql, line 1\)"):
        stage.put(OTHER)
    assert stage.view().state == "current"
    assert stage.put(OTHER, rebuild=True).tables[0].change == "rebuild"
    assert stage.view().state == "rebuild"
    assert stage.put({**OTHER, "line": 3}).tables[0].change == "rebuild"  # accepted before
    assert stage.put(DEFINED).tables[0].change == "settings"  # the rows are those of this query


def test_other_settings_of_a_built_table_need_no_rebuild_but_its_key_never_changes(stage: PipelineStage) -> None:
    stage.put()
    stage.create_target()
    stage.build()
    assert stage.put({**DEFINED, "refresh": "strict"}).tables[0].change == "settings"
    with pytest.raises(StaleDefinition, match="the key"):
        stage.put({**DEFINED, "key": ["id", "n"]}, rebuild=True)


@pytest.mark.parametrize(
    ("tables", "error", "message"),
    [
        ([{**DEFINED, "name": "daily"}], Invalid, "invalid table name"),
        ([{**DEFINED, "name": "nowhere.daily"}], NoSuchNamespace, "nowhere"),
        ([{**DEFINED, "inputs": ["db.gone"]}], NoSuchTable, r"mart\.daily reads db\.gone.*daily\.sql, line 1"),
        ([{**DEFINED, "inputs": ["db.orders.change"]}], InvalidDefinition, "which is a change"),
        ([{**DEFINED, "inputs": ["mart.daily"]}], PipelineCycle, r"mart\.daily reads mart\.daily"),
        ([{**DEFINED, "inputs": ["mart.rank"]}, RANKED], PipelineCycle, "reads mart"),
        ([DEFINED, {**DEFINED, "line": 9}], InvalidDefinition, "defined twice"),
        ([DEFINED, {**DEFINED, "name": "mart.DAILY", "line": 9}], InvalidDefinition, "defined twice"),
        ([{**DEFINED, "key": ["id", "id"]}], InvalidDefinition, "names a column twice"),
        ([{**DEFINED, "name": "db.orders.base", "inputs": ["db.plain"]}], NoSuchNamespace, "db.orders"),
        ([{**DEFINED, "name": f"mart.{'d' * 250}"}], Invalid, "not a name for a writer"),
    ],
)
def test_definitions_that_cannot_be_are_refused(
    stage: PipelineStage, tables: list[dict[str, object]], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        stage.put(*tables)
    with pytest.raises(NotFound):
        stage.lake.services.pipelines.get("orders")


@pytest.mark.parametrize("name", ["", "a#b", "a/b", "ä", "x" * 129])
def test_names_that_cannot_be_are_refused(stage: PipelineStage, name: str) -> None:
    with pytest.raises(Invalid, match="not a name for a pipeline"):
        stage.put(name=name)


def test_a_pipeline_stays_in_its_catalog(stage: PipelineStage) -> None:
    stage.put()
    with pytest.raises(NoSuchCatalog):
        stage.put(catalog="elsewhere")
    stage.lake.services.namespaces.create_catalog("elsewhere", (stage.lake.warehouse / "e").as_uri(), None, {})
    with pytest.raises(Conflict, match="belongs to catalog lake"):
        stage.put(catalog="elsewhere")


def test_two_pipelines_never_write_one_table(stage: PipelineStage) -> None:
    stage.put()
    with pytest.raises(AlreadyExists, match="another pipeline writes"):
        stage.put({**DEFINED, "name": "mart.Daily"}, name="other")


def test_a_cycle_over_two_pipelines_is_refused(stage: PipelineStage) -> None:
    stage.put(DEFINED, RANKED)
    stage.put({**RANKED, "name": "mart.top", "inputs": ["mart.rank"]}, name="other")
    with pytest.raises(PipelineCycle, match=r"mart\.top reads mart\.rank reads mart\.daily reads mart\.top"):
        stage.put({**DEFINED, "inputs": ["db.plain", "mart.top"]}, RANKED)


def test_a_table_with_rows_of_others_is_no_target(stage: PipelineStage) -> None:
    """The first run would delete these rows."""
    stage.lake.append(PLAIN)
    with pytest.raises(Conflict, match="rows that the pipeline has not written"):
        stage.put({**DEFINED, "name": "db.plain", "inputs": ["db.orders"]})


def test_a_removed_table_stays_and_its_run_ends(stage: PipelineStage) -> None:
    stage.put(DEFINED, {**RANKED, "inputs": ["db.plain"]})
    stage.create_target()
    attempt = stage.begin()
    pinned = attempt.pin()
    out = stage.put({**RANKED, "inputs": ["db.plain"]})
    assert {change.table: change.change for change in out.tables}["mart.daily"] == "removed"
    assert stage.job(attempt.lease.job_id).status is JobStatus.CANCELED
    with pytest.raises(Invalid, match="is fenced"):
        attempt.commit()
    assert stage.writer().epoch == pinned.writer.epoch + 1
    assert stage.lake.services.keyed.pin(LAKE, DAILY) is not None


def test_a_catalog_with_pipelines_is_not_dropped(stage: PipelineStage) -> None:
    stage.put()
    with pytest.raises(Conflict, match=r"one of them writes mart\.daily"):
        stage.lake.services.namespaces.drop_catalog(LAKE)


def test_a_view_is_neither_target_nor_input(stage: PipelineStage) -> None:
    view = ViewDefinition(name=TableName(("mart",), "view"), schema=COLUMNS, version=SQL)
    stage.lake.services.views.create(LAKE, view)
    with pytest.raises(Conflict, match="which no pipeline writes"):
        stage.put({**DEFINED, "name": "mart.view"})
    with pytest.raises(InvalidDefinition, match="which is a view"):
        stage.put({**DEFINED, "inputs": ["mart.view"]})


def test_a_dropped_pipeline_commits_nothing_more_and_may_come_again(stage: PipelineStage) -> None:
    stage.put()
    stage.create_target()
    stage.build()
    attempt = stage.begin()
    attempt.pin()
    stage.lake.services.pipelines.drop("orders")
    with pytest.raises(Invalid, match="is fenced"):
        attempt.commit()
    with pytest.raises(NotFound):
        stage.lake.services.pipelines.get("orders")
    stage.put(OTHER)  # without a rebuild: no checkpoint is left
    assert stage.view().state == "new"
    pinned = stage.begin().pin("c" * 64)
    assert pinned.full_reason == "somebody has reset the table, or dropped its pipeline"
    assert not pinned.is_fallback  # a strict table takes it
