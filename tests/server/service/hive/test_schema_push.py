"""Columns that Firn changes go over to Hive as far as the policy says, once, and nothing else waits with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from catalog.errors import CommitUnknown, Conflict, Invalid, Unavailable
from catalog.hive.model import HiveColumn
from server.service.hive.results import SyncOutcome
from tests.factories import LAKE
from tests.hive_tables import columns
from tests.server.faults import Killed
from tests.server.service.hive.altered_columns import (
    added,
    alter_here,
    columns_in_hive,
    dropped,
    fields_here,
    hive_adds,
    hive_has,
    mark_as_published,
    set_hive_policy,
    shown_differences,
    staged_for,
)
from tests.server.service.hive.beside_hive import (
    BesideHive,
    HiveFiles,
    killed_at_every_step,
)
from tests.server.service.hive.links import link_of
from tests.server.service.hive.published_tables import merged
from tests.server.service.hive.synced_tables import upgraded


def test_a_killed_gift_of_columns_is_made_once(beside: BesideHive) -> None:
    died, message = 0, ""
    while True:
        table = upgraded(beside, "id")
        alter_here(beside, table, added("n"))
        mark_as_published(beside, table)
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
    assert columns_in_hive(beside, table) == [("id", "bigint"), ("v", "string"), ("n", "string")]
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    link = link_of(beside, table)
    assert ([column.name for column in link.columns], link.column_differences) == (["id", "v", "n"], ())
    for part in beside.metastore.partitions("db", table.short, ["p=x", "p=y"]):
        assert [column.name for column in part.storage.columns] == ["id", "v", "n"]


def test_a_sync_that_dies_while_it_takes_columns_takes_them_once(beside: BesideHive) -> None:
    def altered(beside: BesideHive) -> HiveFiles:
        table = upgraded(beside, "id")
        hive_has(beside, table, "id bigint; n int; m struct<x:int>")
        return table

    died = 0
    for restarted, table in killed_at_every_step(beside, altered, BesideHive.sync):
        died += 1
        columns = [(field["name"], field["id"]) for field in fields_here(restarted, table)]
        assert columns == [("id", 1), ("n", 4), ("m", 5), ("p", 3)]
        assert restarted.sync(table).outcome is SyncOutcome.UNCHANGED
        assert link_of(restarted, table).former_columns.keys() == {"v"}
    assert died >= 4  # the metadata of both stores, the transaction; before and after


def test_a_table_that_was_never_published_is_not_altered(beside: BesideHive) -> None:
    """Hive has no value of the column, and its writers that name no columns would be refused."""
    table = upgraded(beside, "id")
    alter_here(beside, table, added("n"))
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    assert columns_in_hive(beside, table) == [("id", "bigint"), ("v", "string")]
    [shown] = link_of(beside, table).column_differences
    assert (shown.what, shown.is_conflict) == ("column 'n' string was added here", False)
    assert shown_differences(beside, table) == [(None, "n string", "firn.hive.schema-push=additions")]
    assert link_of(beside, table).drift is None
    merged(beside, table, "x", 1, 7)
    job = beside.publish_requests.publish(LAKE, table.name).job
    assert columns_in_hive(beside, table)[-1] == ("n", "string")
    assert "n" in [column["hive"] for column in staged_for(beside, job).task["columns"]]


def test_nothing_is_given_where_the_policy_says_so(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    set_hive_policy(beside, table, schema_push="none")
    alter_here(beside, table, added("n"))
    mark_as_published(beside, table)
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    assert columns_in_hive(beside, table) == [("id", "bigint"), ("v", "string")]


def test_what_takes_something_from_hives_readers_is_given_only_when_the_policy_says_all(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    mark_as_published(beside, table)
    alter_here(beside, table, dropped("v"))
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    assert columns_in_hive(beside, table) == [("id", "bigint"), ("v", "string")]
    merged_into = merged(beside, table, "x", 1, 7)
    with pytest.raises(Conflict, match="has columns that"):
        beside.publish_requests.publish(LAKE, table.name)
    set_hive_policy(beside, table, schema_push="all")
    assert beside.sync(table).message == "dropped column v in Hive"
    assert columns_in_hive(beside, table) == [("id", "bigint")]
    assert merged_into in beside.live(table)


def test_partitions_with_columns_of_their_own_keep_them(beside: BesideHive) -> None:
    """Their owner altered the table without CASCADE, for files whose types are those of then."""
    table = upgraded(beside, "id")
    [old] = beside.metastore.partitions("db", table.short, ["p=x"])
    storage = replace(old.storage, columns=columns("id int; v string"))
    beside.metastore.add_partition("db", table.short, replace(old, storage=storage))
    alter_here(beside, table, added("n"))
    mark_as_published(beside, table)
    assert beside.sync(table).message == "gave Hive column n string"
    [kept] = beside.metastore.partitions("db", table.short, ["p=x"])
    assert kept.storage == storage


def test_what_the_metastore_refuses_holds_nothing_else_up_and_is_shown(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = upgraded(beside, "id")
    set_hive_policy(beside, table, schema_push="all")
    alter_here(beside, table, dropped("v"))
    alter_here(beside, table, added("n"))
    table.add("x", 9)
    real = beside.metastore.alter_columns

    def picky(database: str, name: str, wanted: Sequence[HiveColumn], **others: Any) -> None:
        if "v" not in [column.name for column in wanted]:
            raise Invalid("the Hive metastore refuses to alter: incompatible")
        real(database, name, wanted, **others)

    monkeypatch.setattr(beside.metastore, "alter_columns", picky)
    outcome = beside.sync(table)
    assert outcome.conflict
    assert outcome.message.startswith("gave Hive column n string; partitions new files: 1; the Hive metastore refuses")
    assert columns_in_hive(beside, table) == [("id", "bigint"), ("v", "string"), ("n", "string")]
    assert outcome.job is not None


@pytest.mark.parametrize("error", [CommitUnknown, Unavailable])
@pytest.mark.parametrize("has_landed", [True, False])
def test_an_answer_that_was_lost_is_made_good_by_the_next_sync(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch, error: type[Exception], *, has_landed: bool
) -> None:
    table = upgraded(beside, "id")
    alter_here(beside, table, added("n"))
    mark_as_published(beside, table)
    table.add("x", 9)
    real = beside.metastore.alter_columns

    def lost(*args: Any, **named: Any) -> None:
        if has_landed:
            real(*args, **named)
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
    assert columns_in_hive(beside, table) == [("id", "bigint"), ("v", "string"), ("n", "string")]


def test_columns_that_hive_changes_meanwhile_are_not_overwritten(beside: BesideHive) -> None:
    """At whatever moment: both sides' columns are on both sides in the end."""
    for moment in range(1, 30):
        table = upgraded(beside, "id")
        alter_here(beside, table, added("n"))
        mark_as_published(beside, table)
        beside.fuse.meanwhile(moment, partial(hive_adds, beside, table))
        beside.sync(table)
        if beside.fuse.others is not None:
            break
        beside.sync(table)
        assert {name for name, _ in columns_in_hive(beside, table)} == {"id", "v", "n", "theirs"}
        assert {field["name"] for field in fields_here(beside, table)} == {"id", "v", "n", "theirs", "p"}
        assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    assert 5 < moment < 29
