"""Columns that either side changes: what goes over, what waits, and that nothing else waits with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.errors import CommitUnknown, Conflict, Invalid, RequirementFailed, Unavailable
from catalog.hive.columns import SchemaDrift
from catalog.hive.mapping import PROPERTY, read_aliases
from catalog.hive.model import PROVIDER, HiveColumn
from catalog.iceberg.table import current_schema
from firn.protocol.operations import OperationStatus
from server.api.hive_views import load_column_differences
from server.service.hive.link_state import advance, update_link
from server.service.hive.results import SyncOutcome
from server.service.hive.schema_sync import note_schema
from tests.factories import LAKE
from tests.hive_tables import columns
from tests.server.faults import Killed
from tests.server.service.hive.altered_columns import Fields, added, alter_here, commit, hive_has, staged_for
from tests.server.service.hive.beside_hive import (
    LONG_AGO_NS,
    BesideHive,
    HiveFiles,
    checkpoint_of,
    killed_at_every_step,
)
from tests.server.service.hive.links import drift_of, link_of
from tests.server.service.hive.published_tables import merged
from tests.server.service.hive.synced_tables import relation_of, upgraded


def in_hive(beside: BesideHive, table: HiveFiles) -> list[tuple[str, str]]:
    return [(one.name, one.type) for one in beside.metastore.table("db", table.short).columns]


def here(beside: BesideHive, table: HiveFiles) -> Fields:
    metadata = beside.metadata(table)
    assert metadata is not None
    return list(current_schema(metadata)["fields"])


def policy(beside: BesideHive, table: HiveFiles, **values: str) -> None:
    told = {f"firn.hive.{key.replace('_', '-')}": value for key, value in values.items()}
    commit(beside, table, [{"action": "set-properties", "updates": told}])


def changed(column: str, **values: Any) -> Callable[[Fields], object]:
    return lambda fields: next(one for one in fields if one["name"] == column).update(values)


def dropped(name: str) -> Callable[[Fields], object]:
    return lambda fields: fields.remove(next(one for one in fields if one["name"] == name))


def as_published(beside: BesideHive, table: HiveFiles) -> None:
    with beside.database.writing() as uow:
        relation = relation_of(beside, table)
        update_link(uow, relation.id, lambda link: replace(link, published_at=link.synced_at))


def put(table: HiveFiles, part: str, file: str, **values: Sequence[Any]) -> None:
    """A file of Hive's with other columns than usual, old enough to be believed."""
    path = table.add(part, 1, file=f"{file}.parquet")
    pq.write_table(pa.table({name: list(those) for name, those in values.items()}), path)
    age = LONG_AGO_NS + next(table.beside.numbers)
    os.utime(path, ns=(age, age))


def shown_differences(beside: BesideHive, table: HiveFiles) -> list[tuple[str | None, str | None, str]]:
    """What people see: Hive's side, this one, and the policy that decides."""
    with beside.database.reading() as uow:
        return [(one.hive, one.here, one.decided_by) for one in load_column_differences(uow, LAKE, table.name)]


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_type_in_conflict_holds_up_only_files_that_do_not_fit_it(beside: BesideHive, key: tuple[str, ...]) -> None:
    table = upgraded(beside, *key)
    hive_has(beside, table, "id bigint; v int; more bigint")
    put(table, "x", "fits", id=[7], v=["seven"], more=[1])
    put(table, "y", "strange", id=[8], v=[8], more=[1])
    outcome = beside.sync(table)
    assert outcome.conflict
    assert outcome.message.startswith(
        "added column more bigint; partitions new files: 1; column 'v' changed in Hive from "
    )
    assert "partition p=y is not taken over" in outcome.message
    assert [one["name"] for one in here(beside, table)] == ["id", "v", "more", "p"]
    if key:
        task = staged_for(beside, outcome.job).task
        assert [unit["values"] for unit in task["units"]] == [["x"]]
        assert [(one["hive"], one["type"]) for one in task["columns"]][:2] == [("id", "bigint"), ("v", "string")]
    else:
        assert {one for one in table.files() if "strange" not in one} == beside.live(table)
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
    put(table, "x", "without", id=[7], v=["v"])
    put(table, "y", "with", id=[8], v=["v"], w=["w"])
    outcome = beside.sync(table)
    assert "the table's is what Hive calls 'v'" in outcome.message
    assert "holds column 'w'" in outcome.message
    assert beside.live(table) == {one for one in table.files() if not one.endswith("/with.parquet")}
    alter_here(beside, table, changed("w", name="ours"))
    metadata = beside.metadata(table)
    assert metadata is not None
    assert (2, "w") in read_aliases(metadata["properties"][PROPERTY])
    assert beside.sync(table).conflict, "files of before are still read by that name"


def test_files_hold_a_column_that_was_renamed_here_under_hives_name(beside: BesideHive) -> None:
    """However they spell it: Iceberg compares letter by letter, and would read nulls."""
    table = upgraded(beside)
    alter_here(beside, table, changed("v", name="w"))
    put(table, "x", "new", id=[7], V=["seven"])
    assert beside.sync(table).message == "partitions new files: 1"
    metadata = beside.metadata(table)
    assert metadata is not None
    assert (2, "V") in read_aliases(metadata["properties"][PROPERTY])
    put(table, "x", "strange", id=[8], v=[8])
    assert "column 'v' is a string in the table and a INT64 in the file" in beside.sync(table).message


def test_a_key_that_hive_has_dropped_holds_up_only_files_without_it(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    hive_has(beside, table, "v string")
    put(table, "x", "with", id=[7], v=["v"])
    put(table, "y", "without", v=["v"])
    outcome = beside.sync(table)
    assert outcome.conflict
    assert "which the table's key needs" in outcome.message
    task = staged_for(beside, outcome.job).task
    assert [unit["values"] for unit in task["units"]] == [["x"]]
    assert {one["hive"] for one in task["columns"]} == {"id", "v"}


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
    policy(beside, table, schema_conflict="hive")
    assert beside.sync(table).message == "changed the comment of column v"
    assert here(beside, table)[1]["doc"] == "theirs"
    assert link_of(beside, table).column_differences == ()


def test_a_column_that_hive_drops_and_adds_again_keeps_its_values(beside: BesideHive) -> None:
    table = upgraded(beside)
    before = here(beside, table)
    hive_has(beside, table, "id bigint")
    assert beside.sync(table).message == "dropped column v"
    hive_has(beside, table, "id bigint; v string")
    assert beside.sync(table).message == "took column v back"
    assert here(beside, table) == before
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
    assert (unit["values"], [one["added"] for one in unit["files"]]) == (["x"], [False])
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


def test_a_killed_gift_of_columns_is_made_once(beside: BesideHive) -> None:
    died, message = 0, ""
    while True:
        table = upgraded(beside, "id")
        alter_here(beside, table, added("n"))
        as_published(beside, table)
        beside.fuse.left = died + 1
        try:
            message = beside.sync(table).message
        except Killed:
            died += 1
            beside = beside.restarted()
            beside.sync(table)
        else:
            beside.fuse.left = None
            break
        check_given(beside, table)
    assert message == "gave Hive column n string"
    assert died >= 5  # the note of what differs, the alteration, the note that it is given; before and after
    check_given(beside, table)


def check_given(beside: BesideHive, table: HiveFiles) -> None:
    assert in_hive(beside, table) == [("id", "bigint"), ("v", "string"), ("n", "string")]
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    link = link_of(beside, table)
    assert ([one.name for one in link.columns], link.column_differences) == (["id", "v", "n"], ())
    for part in beside.metastore.partitions("db", table.short, ["p=x", "p=y"]):
        assert [one.name for one in part.storage.columns] == ["id", "v", "n"]


def test_a_sync_that_dies_while_it_takes_columns_takes_them_once(beside: BesideHive) -> None:
    def altered(beside: BesideHive) -> HiveFiles:
        table = upgraded(beside, "id")
        hive_has(beside, table, "id bigint; n int; m struct<x:int>")
        return table

    died = 0
    for restarted, table in killed_at_every_step(beside, altered, BesideHive.sync):
        died += 1
        columns = [(one["name"], one["id"]) for one in here(restarted, table)]
        assert columns == [("id", 1), ("n", 4), ("m", 5), ("p", 3)]
        assert restarted.sync(table).outcome is SyncOutcome.UNCHANGED
        assert link_of(restarted, table).former_columns.keys() == {"v"}
    assert died >= 4  # the metadata of both stores, the transaction; before and after


def test_a_table_that_was_never_published_is_not_altered(beside: BesideHive) -> None:
    """Hive has no value of the column, and its writers that name no columns would be refused."""
    table = upgraded(beside, "id")
    alter_here(beside, table, added("n"))
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    assert in_hive(beside, table) == [("id", "bigint"), ("v", "string")]
    [shown] = link_of(beside, table).column_differences
    assert (shown.what, shown.is_conflict) == ("column 'n' string was added here", False)
    assert shown_differences(beside, table) == [(None, "n string", "firn.hive.schema-push=additions")]
    assert link_of(beside, table).drift is None
    merged(beside, table, "x", 1, 7)
    job = beside.publish_requests.publish(LAKE, table.name).job
    assert in_hive(beside, table)[-1] == ("n", "string")
    assert "n" in [one["hive"] for one in staged_for(beside, job).task["columns"]]


def test_nothing_is_given_where_the_policy_says_so(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    policy(beside, table, schema_push="none")
    alter_here(beside, table, added("n"))
    as_published(beside, table)
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    assert in_hive(beside, table) == [("id", "bigint"), ("v", "string")]


def test_what_takes_something_from_hives_readers_is_given_only_when_the_policy_says_all(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    as_published(beside, table)
    alter_here(beside, table, dropped("v"))
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    assert in_hive(beside, table) == [("id", "bigint"), ("v", "string")]
    merged_into = merged(beside, table, "x", 1, 7)
    with pytest.raises(Conflict, match="has columns that"):
        beside.publish_requests.publish(LAKE, table.name)
    policy(beside, table, schema_push="all")
    assert beside.sync(table).message == "dropped column v in Hive"
    assert in_hive(beside, table) == [("id", "bigint")]
    assert merged_into in beside.live(table)


def test_partitions_with_columns_of_their_own_keep_them(beside: BesideHive) -> None:
    """Their owner altered the table without CASCADE, for files whose types are those of then."""
    table = upgraded(beside, "id")
    [old] = beside.metastore.partitions("db", table.short, ["p=x"])
    storage = replace(old.storage, columns=columns("id int; v string"))
    beside.metastore.add_partition("db", table.short, replace(old, storage=storage))
    alter_here(beside, table, added("n"))
    as_published(beside, table)
    assert beside.sync(table).message == "gave Hive column n string"
    [kept] = beside.metastore.partitions("db", table.short, ["p=x"])
    assert kept.storage == storage


def test_what_the_metastore_refuses_holds_nothing_else_up_and_is_shown(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = upgraded(beside, "id")
    policy(beside, table, schema_push="all")
    alter_here(beside, table, dropped("v"))
    alter_here(beside, table, added("n"))
    table.add("x", 9)
    real = beside.metastore.alter_columns

    def picky(database: str, name: str, wanted: Sequence[HiveColumn], **others: Any) -> None:
        if "v" not in [one.name for one in wanted]:
            raise Invalid("the Hive metastore refuses to alter: incompatible")
        real(database, name, wanted, **others)

    monkeypatch.setattr(beside.metastore, "alter_columns", picky)
    outcome = beside.sync(table)
    assert outcome.conflict
    assert outcome.message.startswith("gave Hive column n string; partitions new files: 1; the Hive metastore refuses")
    assert in_hive(beside, table) == [("id", "bigint"), ("v", "string"), ("n", "string")]
    assert outcome.job is not None


@pytest.mark.parametrize("error", [CommitUnknown, Unavailable])
@pytest.mark.parametrize("has_landed", [True, False])
def test_an_answer_that_was_lost_is_made_good_by_the_next_sync(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch, error: type[Exception], *, has_landed: bool
) -> None:
    table = upgraded(beside, "id")
    alter_here(beside, table, added("n"))
    as_published(beside, table)
    table.add("x", 9)
    real = beside.metastore.alter_columns

    def lost(*told: Any, **named: Any) -> None:
        if has_landed:
            real(*told, **named)
        raise error("no answer")

    with monkeypatch.context() as once:
        once.setattr(beside.metastore, "alter_columns", lost)
        outcome = beside.sync(table)
    assert outcome.message == "partitions new files: 1; no answer"
    assert outcome.job is not None
    beside.services.jobs.cancel(outcome.job.id)
    assert beside.sync(table).message.startswith(
        "partitions" if has_landed else "gave Hive column n string; partitions"
    )
    assert in_hive(beside, table) == [("id", "bigint"), ("v", "string"), ("n", "string")]


def test_columns_that_hive_changes_meanwhile_are_not_overwritten(beside: BesideHive) -> None:
    """At whatever moment: both sides' columns are on both sides in the end."""
    for moment in range(1, 30):
        table = upgraded(beside, "id")
        alter_here(beside, table, added("n"))
        as_published(beside, table)
        beside.fuse.meanwhile(moment, partial(hive_adds, beside, table))
        beside.sync(table)
        if beside.fuse.others is not None:
            break
        beside.sync(table)
        assert {name for name, _ in in_hive(beside, table)} == {"id", "v", "n", "theirs"}
        assert {one["name"] for one in here(beside, table)} == {"id", "v", "n", "theirs", "p"}
        assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    assert 5 < moment < 29


def hive_adds(beside: BesideHive, table: HiveFiles) -> None:
    there = "; ".join(f"{name} {kind}" for name, kind in in_hive(beside, table))
    hive_has(beside, table, f"{there}; theirs int")


def test_published_files_are_read_with_the_columns_that_hive_does_not_know(beside: BesideHive) -> None:
    """A rebuild from them must not take the values of a column away that was never given."""
    table = upgraded(beside, "id")
    policy(beside, table, schema_push="none")
    alter_here(beside, table, added("n"))
    for path in (table.path / "p=x").iterdir():
        path.unlink()
    put(table, "x", "published", id=[1], v=["v"], n=["kept"])
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
    fields = here(beside, table)
    struct = next(one for one in fields if one["name"] == "s")["type"]
    alter_here(beside, table, changed("s", type={**struct, "fields": struct["fields"][::-1]}))
    merged(beside, table, "x", 1, 7)
    with pytest.raises(Conflict, match="take one for another"):
        beside.publish_requests.publish(LAKE, table.name)


@pytest.mark.parametrize("gives", ["none", "additions"])
def test_a_table_goes_back_to_hive_with_its_columns_or_not_at_all(beside: BesideHive, gives: str) -> None:
    """Files hold a column that Hive's table lacks: its readers would never see the values again."""
    table = upgraded(beside, "id")
    policy(beside, table, schema_push=gives)
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
        assert in_hive(beside, table)[-1] == ("n", "string")


def test_columns_that_spark_keeps_elsewhere_are_not_altered(beside: BesideHive) -> None:
    """Spark would not see it, and go on by a schema that is not the metastore's any more."""
    table = upgraded(beside, "id")
    there = beside.metastore.table("db", table.short)
    beside.metastore.add_table(replace(there, parameters={**there.parameters, PROVIDER: "parquet"}))
    as_published(beside, table)
    alter_here(beside, table, added("n"))
    outcome = beside.sync(table)
    assert outcome.message == f"Spark keeps the columns of {table.name} itself: alter them there"
    assert in_hive(beside, table) == [("id", "bigint"), ("v", "string")]


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
