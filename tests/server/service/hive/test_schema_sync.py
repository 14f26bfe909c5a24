"""Columns that either side changes: what goes over, what waits, and that nothing else waits with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catalog.errors import Conflict, RequirementFailed
from catalog.hive.columns import SchemaDrift
from catalog.hive.mapping import PROPERTY, read_aliases
from catalog.hive.model import PROVIDER
from catalog.iceberg.table import current_schema
from firn.protocol.operations import OperationStatus
from server.service.hive.link_state import advance
from server.service.hive.results import SyncOutcome
from server.service.hive.schema_sync import note_schema
from tests.factories import LAKE
from tests.server.service.hive.altered_columns import (
    added,
    alter_here,
    changed,
    columns_in_hive,
    fields_here,
    hive_has,
    mark_as_published,
    put_file,
    set_hive_policy,
    shown_differences,
    staged_for,
)
from tests.server.service.hive.beside_hive import (
    BesideHive,
    checkpoint_of,
)
from tests.server.service.hive.links import drift_of, link_of
from tests.server.service.hive.published_tables import merged
from tests.server.service.hive.synced_tables import relation_of, upgraded


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_type_in_conflict_holds_up_only_files_that_do_not_fit_it(beside: BesideHive, key: tuple[str, ...]) -> None:
    table = upgraded(beside, *key)
    hive_has(beside, table, "id bigint; v int; more bigint")
    put_file(table, "x", "fits", id=[7], v=["seven"], more=[1])
    put_file(table, "y", "strange", id=[8], v=[8], more=[1])
    outcome = beside.sync(table)
    assert outcome.conflict
    assert outcome.message.startswith(
        "added column more bigint; partitions new files: 1; column 'v' changed in Hive from "
    )
    assert "partition p=y is not taken over" in outcome.message
    assert [field["name"] for field in fields_here(beside, table)] == ["id", "v", "more", "p"]
    if key:
        task = staged_for(beside, outcome.job).task
        assert [unit["values"] for unit in task["units"]] == [["x"]]
        assert [(column["hive"], column["type"]) for column in task["columns"]][:2] == [
            ("id", "bigint"),
            ("v", "string"),
        ]
    else:
        assert {file for file in table.files() if "strange" not in file} == beside.live(table)
        assert "column 'v' changed" in drift_of(beside, table)
        hive_has(beside, table, "id bigint; v string; more bigint")
        (table.path / "p=y" / "strange.parquet").unlink()
        assert not beside.sync(table).conflict
        assert link_of(beside, table).drift is None
        assert link_of(beside, table).column_differences == ()


def test_a_new_column_of_a_name_that_was_given_here_holds_up_only_files_that_have_it(beside: BesideHive) -> None:
    """Its values would be read as those of the column that was renamed."""
    table = upgraded(beside)
    alter_here(beside, table, changed("v", name="w"))
    hive_has(beside, table, "id bigint; v string; w string")
    put_file(table, "x", "without", id=[7], v=["v"])
    put_file(table, "y", "with", id=[8], v=["v"], w=["w"])
    outcome = beside.sync(table)
    assert "the table's is what Hive calls 'v'" in outcome.message
    assert "holds column 'w'" in outcome.message
    assert beside.live(table) == {file for file in table.files() if not file.endswith("/with.parquet")}
    alter_here(beside, table, changed("w", name="ours"))
    metadata = beside.metadata(table)
    assert metadata is not None
    assert (2, "w") in read_aliases(metadata["properties"][PROPERTY])
    assert beside.sync(table).conflict, "files of before are still read by that name"


def test_files_hold_a_column_that_was_renamed_here_under_hives_name(beside: BesideHive) -> None:
    """However they spell it: Iceberg compares letter by letter, and would read nulls."""
    table = upgraded(beside)
    alter_here(beside, table, changed("v", name="w"))
    put_file(table, "x", "new", id=[7], V=["seven"])
    assert beside.sync(table).message == "partitions new files: 1"
    metadata = beside.metadata(table)
    assert metadata is not None
    assert (2, "V") in read_aliases(metadata["properties"][PROPERTY])
    put_file(table, "x", "strange", id=[8], v=[8])
    assert "column 'v' is a string in the table and a INT64 in the file" in beside.sync(table).message


def test_a_key_that_hive_has_dropped_holds_up_only_files_without_it(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    hive_has(beside, table, "v string")
    put_file(table, "x", "with", id=[7], v=["v"])
    put_file(table, "y", "without", v=["v"])
    outcome = beside.sync(table)
    assert outcome.conflict
    assert "which the table's key needs" in outcome.message
    task = staged_for(beside, outcome.job).task
    assert [unit["values"] for unit in task["units"]] == [["x"]]
    assert {column["hive"] for column in task["columns"]} == {"id", "v"}


def test_a_column_that_iceberg_does_not_have_waits_alone(beside: BesideHive) -> None:
    table = upgraded(beside)
    hive_has(beside, table, "id bigint; v string; u uniontype<int,string>; n int")
    table.add("x", 9)
    outcome = beside.sync(table)
    assert outcome.conflict
    assert outcome.message.startswith("added column n int; partitions new files: 1; Hive has a new column 'u'")
    assert beside.live(table) == table.files()


def test_what_both_have_changed_waits_until_a_policy_says_whose_counts(beside: BesideHive) -> None:
    table = upgraded(beside)
    hive_has(beside, table, "id bigint; v string", v="theirs")
    alter_here(beside, table, changed("v", doc="ours"))
    outcome = beside.sync(table)
    assert outcome.conflict
    [known] = link_of(beside, table).column_differences
    assert (known.column, known.is_conflict) == ("v", True)
    assert shown_differences(beside, table) == [("v string", "v string", "firn.hive.schema-conflict=ask")]
    table.add("x", 9)
    assert beside.sync(table).message.startswith("partitions new files: 1; the comment of column 'v'")
    assert link_of(beside, table).column_differences == (known,), "since when stays"
    set_hive_policy(beside, table, schema_conflict="hive")
    assert beside.sync(table).message == "changed the comment of column v"
    assert fields_here(beside, table)[1]["doc"] == "theirs"
    assert link_of(beside, table).column_differences == ()


def test_a_column_that_hive_drops_and_adds_again_keeps_its_values(beside: BesideHive) -> None:
    table = upgraded(beside)
    before = fields_here(beside, table)
    hive_has(beside, table, "id bigint")
    assert beside.sync(table).message == "dropped column v"
    hive_has(beside, table, "id bigint; v string")
    assert beside.sync(table).message == "took column v back"
    assert fields_here(beside, table) == before
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


def test_rows_that_lost_a_column_while_it_was_gone_are_read_again(beside: BesideHive) -> None:
    """A merge has written them without it; published so, Hive's readers would lose what its files still hold."""
    table = upgraded(beside, "id")
    hive_has(beside, table, "id bigint")
    assert beside.sync(table).message == "dropped column v"
    merged(beside, table, "x", 1, 2)
    hive_has(beside, table, "id bigint; v string")
    outcome = beside.sync(table)
    assert outcome.message == "took column v back; partitions rewritten or moved: 1"
    staged = staged_for(beside, outcome.job)
    assert staged.task["mode"] == "rebuild"
    [unit] = staged.task["units"]
    assert (unit["values"], [file["added"] for file in unit["files"]]) == (["x"], [False])
    assert outcome.job is not None
    beside.services.jobs.cancel(outcome.job.id)
    assert beside.publish_requests.publish(LAKE, table.name).message.startswith("a sync builds partitions anew")
    table.add("x", 9)
    again = beside.sync(table)
    assert again.message == "partitions rewritten or moved: 1", "until it is done"
    with beside.database.writing() as uow:
        advance(uow, relation_of(beside, table).id, checkpoint_of(staged_for(beside, again.job)))
    assert again.job is not None
    beside.services.jobs.cancel(again.job.id)
    assert link_of(beside, table).read_again == ()
    assert beside.sync(table).message == "partitions new files: 1", "what came meanwhile is newer than all changes"


def test_published_files_are_read_with_the_columns_that_hive_does_not_know(beside: BesideHive) -> None:
    """A rebuild from them must not take the values of a column away that was never given."""
    table = upgraded(beside, "id")
    set_hive_policy(beside, table, schema_push="none")
    alter_here(beside, table, added("n"))
    for path in (table.path / "p=x").iterdir():
        path.unlink()
    put_file(table, "x", "published", id=[1], v=["v"], n=["kept"])
    task = staged_for(beside, beside.sync(table).job).task
    assert {"hive": "n", "type": "string", "name": "n"} in task["columns"]


def test_a_table_is_not_published_while_a_type_is_in_conflict(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    hive_has(beside, table, "id bigint; v int")
    with pytest.raises(Conflict, match="cannot be published while both sides differ: column 'v'"):
        beside.publish_requests.publish(LAKE, table.name)


def test_structs_are_not_published_in_another_order_than_hives(beside: BesideHive) -> None:
    """A cast goes by position: values of one field would be another's."""
    table = upgraded(beside, "id")
    hive_has(beside, table, "id bigint; v string; s struct<a:int,b:int>")
    beside.sync(table)
    fields = fields_here(beside, table)
    struct = next(field for field in fields if field["name"] == "s")["type"]
    alter_here(beside, table, changed("s", type={**struct, "fields": struct["fields"][::-1]}))
    merged(beside, table, "x", 1, 7)
    with pytest.raises(Conflict, match="would lose or confuse fields"):
        beside.publish_requests.publish(LAKE, table.name)


@pytest.mark.parametrize("gives", ["none", "additions"])
def test_a_table_goes_back_to_hive_with_its_columns_or_not_at_all(beside: BesideHive, gives: str) -> None:
    """Files hold a column that Hive's table lacks: its readers would never see the values again."""
    table = upgraded(beside, "id")
    set_hive_policy(beside, table, schema_push=gives)
    alter_here(beside, table, added("n"))
    operation = beside.downgrades.start(LAKE, table.name)
    for _ in range(3):
        beside.downgrades.activate()
    ended = beside.operation(operation)
    if gives == "none":
        assert ended.error == "Hive's readers would not see every column: column 'n' string was added here"
        assert link_of(beside, table).drift is None
    else:
        assert (ended.status, ended.error) == (OperationStatus.SUCCEEDED, None)
        assert columns_in_hive(beside, table)[-1] == ("n", "string")


def test_columns_that_spark_keeps_elsewhere_are_not_altered(beside: BesideHive) -> None:
    """Spark would not see it, and go on by a schema that is not the metastore's any more."""
    table = upgraded(beside, "id")
    there = beside.metastore.table("db", table.short)
    beside.metastore.add_table(replace(there, parameters={**there.parameters, PROVIDER: "parquet"}))
    mark_as_published(beside, table)
    alter_here(beside, table, added("n"))
    outcome = beside.sync(table)
    assert outcome.message == f"Spark keeps the columns of {table.name} itself: alter them there"
    assert columns_in_hive(beside, table) == [("id", "bigint"), ("v", "string")]


def test_a_sync_that_was_overtaken_does_not_take_back_what_is_in_step(beside: BesideHive) -> None:
    """Or a column that the other one has taken would pass for one that was added here."""
    table = upgraded(beside)
    before = link_of(beside, table).columns
    metadata = beside.metadata(table)
    assert metadata is not None
    stale = SchemaDrift(schema=current_schema(metadata), last_column_id=9, aliases=[])
    hive_has(beside, table, "id bigint; v string; theirs int")
    beside.sync(table)
    with beside.database.writing() as uow, pytest.raises(RequirementFailed):
        note_schema(uow, relation_of(beside, table).id, before, stale)
    assert len(link_of(beside, table).columns) == 3
