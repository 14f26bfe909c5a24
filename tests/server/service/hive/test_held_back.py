"""What was checked before the upgrade is checked at every sync: the partition or table waits, and says why."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from catalog.errors import AlreadyExists, Unavailable
from catalog.names import CatalogName, TableName
from server.service.hive.link_state import update_link
from server.service.hive.results import SyncOutcome, SyncResult
from tests.factories import LAKE
from tests.hive_tables import TEXT, a_hive_partition, a_hive_table, a_storage, columns
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles, uri
from tests.server.service.hive.links import drift_of, link_of


def upgraded(beside: BesideHive, *key: str) -> HiveFiles:
    table = beside.hive_table()
    beside.start(table, *key)
    beside.upgrades.activate()
    return table


def likely_author(beside: BesideHive, table: HiveFiles) -> str | None:
    drift = link_of(beside, table).drift
    return None if drift is None else drift.likely_author


def check_held(beside: BesideHive, table: HiveFiles, words: str, *, key: bool = False) -> SyncResult:
    """The outcome says so, and so does the table until a later sync finds it mended."""
    outcome = beside.sync(table)
    assert words in outcome.message
    assert outcome.conflict
    if not key:
        assert words in drift_of(beside, table)
    return outcome


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_partition_whose_files_moved_into_sub_directories_is_not_emptied(
    beside: BesideHive, key: tuple[str, ...]
) -> None:
    """Hive on Tez writes so for UNION ALL: base must not lose the rows that Hive still shows."""
    table = upgraded(beside, *key)
    before = beside.live(table)
    (path,) = (table.path / "p=x").iterdir()
    below = table.path / "p=x" / "HIVE_UNION_SUBDIR_1"
    below.mkdir()
    path.rename(below / path.name)
    outcome = check_held(beside, table, "partition p=x is not taken over: its directory has sub-directories")
    assert outcome.job is None
    assert beside.live(table) == before
    (below / path.name).rename(path)
    below.rmdir()
    assert not beside.sync(table).conflict
    assert drift_of(beside, table) is None


def test_other_partitions_are_taken_over_while_one_is_held(beside: BesideHive) -> None:
    table = upgraded(beside)
    text = a_storage(uri(table.path / "p=z"), serde=TEXT)
    beside.metastore.add_partition("db", table.short, a_hive_partition("z", storage=text))
    table.add("y", 9)
    outcome = check_held(beside, table, "stored as text: p=z")
    assert outcome.message.startswith("partitions new files: 1; ")
    assert beside.live(table) == table.files()


def test_partitions_of_the_same_value_wait_both_and_lose_no_row(beside: BesideHive) -> None:
    """p=01 was there, and a writer that knows numbers adds p=1: a rebuild of either would take the other's rows."""
    table = numbered(beside)
    before = beside.live(table)
    added = uri(table.path / "p=1")
    beside.metastore.add_partition("db", table.short, a_hive_partition("1", storage=a_storage(added)))
    for path in (table.path / "p=01").iterdir():
        path.unlink()
    outcome = check_held(beside, table, "have the same values spelled differently")
    assert outcome.message.endswith("1 more partition waits too")
    assert beside.live(table) == before


def numbered(beside: BesideHive) -> HiveFiles:
    table = beside.hive_table()
    for part in ("x", "y"):
        table.drop(part)
    storage = a_storage(uri(table.path), "id bigint; v string")
    beside.metastore.add_table(a_hive_table(name=table.short, storage=storage, partitioned_by="p int"))
    table.add("01", 1, 2)
    beside.start(table)
    beside.upgrades.activate()
    return table


def test_an_alias_of_a_partition_that_moves_on_takes_no_rows_with_it(beside: BesideHive) -> None:
    """p=latest points at the newest day's directory, and at the next day's tomorrow."""
    table = upgraded(beside)
    latest = a_storage(uri(table.path / "p=x"), "id bigint; v string")
    beside.metastore.add_partition("db", table.short, a_hive_partition("latest", storage=latest))
    check_held(beside, table, "share the directory")
    moved = a_storage(uri(table.path / "p=y"), "id bigint; v string")
    beside.metastore.add_partition("db", table.short, a_hive_partition("latest", storage=moved))
    check_held(beside, table, "share the directory")
    beside.metastore.drop_partition("db", table.short, "p=latest")
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    assert beside.live(table) == table.files()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"partition_columns": columns("country string")}, "Hive partitions db.t0 by (country string)"),
        ({"partition_columns": ()}, "Hive partitions db.t0 by nothing"),
        ({"parameters": {"transactional": "true"}}, "transactional (ACID)"),
        ({"type": "VIRTUAL_VIEW"}, "is a view"),
    ],
)
def test_a_table_that_was_made_anew_otherwise_is_not_followed(
    beside: BesideHive, change: dict[str, Any], words: str
) -> None:
    """Its values would land in the columns and partitions of the one before."""
    table = upgraded(beside)
    before = beside.live(table)
    there = beside.metastore.table("db", table.short)
    beside.metastore.add_table(replace(there, **change))
    check_held(beside, table, words)
    assert beside.live(table) == before
    beside.metastore.add_table(there)
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


def test_a_table_that_was_made_anew_alike_is_followed(beside: BesideHive) -> None:
    table = upgraded(beside)
    there = beside.metastore.table("db", table.short)
    for part in ("x", "y"):
        table.drop(part)
    beside.metastore.drop_table("db", table.short)
    beside.metastore.add_table(there)
    table.add("z", 8)
    assert beside.sync(table).message == "partitions new: 1, dropped: 2"
    assert beside.live(table) == table.files()


def test_a_sync_that_fails_by_schedule_says_why_with_its_table(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = upgraded(beside)
    table.add("x", 4)
    monkeypatch.setattr("server.service.hive.sync.is_due", lambda *_, **__: True)
    with monkeypatch.context() as unreadable:
        unreadable.setattr("server.files.listing.Listings.list", denied)
        assert beside.syncs.activate().unavailable == 1
    assert drift_of(beside, table) == "the last sync failed: permission denied"
    # A metastore that is away is no trouble of this table's.
    beside.metastore.answers = False
    assert beside.syncs.activate().unavailable == 1
    assert drift_of(beside, table) == "the last sync failed: permission denied"
    beside.metastore.answers = True
    assert beside.syncs.activate().unavailable == 0
    assert drift_of(beside, table) is None
    assert beside.live(table) == table.files()


def denied(*_: object, **__: object) -> None:
    raise Unavailable("permission denied")


def test_a_writer_that_moves_no_signal_is_seen_by_the_next_sweep(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on object stores, whose directories have no times: Spark's INSERT moves no time and no statistics."""
    monkeypatch.setattr("server.files.listing.Listings.modified_ns", lambda *_: None)
    monkeypatch.setattr("server.service.hive.sync.is_due", lambda *_, **__: True)
    table = upgraded(beside)
    assert beside.syncs.activate().changed == 0
    table.add("x", 4)
    assert beside.syncs.activate().changed == 0
    with beside.database.writing() as uow:
        relation = uow.relations.find(LAKE, beside.table_name(table))
        assert relation is not None
        update_link(uow, relation.id, lambda link: replace(link, swept_at=datetime(2020, 1, 1, tzinfo=UTC)))
    assert beside.syncs.activate().changed == 1
    assert beside.live(table) == table.files()
    table.add("x", 5)
    assert beside.syncs.activate().changed == 0, "it swept a moment ago"


def test_what_waits_is_listed_again_where_no_signal_tells_of_it(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it would pass for well until the next sweep."""
    monkeypatch.setattr("server.files.listing.Listings.modified_ns", lambda *_: None)
    monkeypatch.setattr("server.service.hive.sync.is_due", lambda *_, **__: True)
    table = upgraded(beside)
    below = table.path / "p=x" / "below"
    below.mkdir()
    (path,) = (table.path / "p=y").iterdir()
    path.unlink()
    young = table.add("y", 7)
    os.utime(young)
    outcome = beside.sync(table)
    assert "partition p=x is not taken over" in outcome.message
    os.utime(young, ns=(10**18, 10**18))
    assert beside.syncs.activate().conflicts == 1
    assert "partition p=x is not taken over" in drift_of(beside, table)
    assert beside.live(table) == table.files()
    below.rmdir()
    assert beside.syncs.activate().conflicts == 0
    assert drift_of(beside, table) is None


def test_since_when_both_sides_differ_is_known_whatever_the_words_become(beside: BesideHive) -> None:
    table = upgraded(beside)
    there = beside.metastore.table("db", table.short)
    beside.metastore.add_table(replace(there, type="VIRTUAL_VIEW"))
    beside.sync(table)
    since = link_of(beside, table).drift_since
    assert since is not None
    beside.metastore.add_table(replace(there, parameters={"transactional": "true"}))
    beside.sync(table)
    assert "transactional" in drift_of(beside, table)
    assert link_of(beside, table).drift_since == since
    beside.metastore.add_table(there)
    beside.sync(table)
    assert link_of(beside, table).drift_since is None


def test_an_unreachable_metastore_is_told_to_whoever_asks(beside: BesideHive) -> None:
    table = upgraded(beside)
    beside.metastore.answers = False
    with pytest.raises(Unavailable):
        beside.sync(table)


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_table_that_was_renamed_here_stays_linked_and_is_not_upgraded_twice(
    beside: BesideHive, key: tuple[str, ...]
) -> None:
    """Two tables over one Hive table would each undo what the other publishes."""
    table = upgraded(beside, *key)
    renamed = TableName(("db",), "renamed")
    tables = beside.services.keyed if key else beside.services.tables
    tables.rename(LAKE, beside.table_name(table), renamed)
    table.add("x", 4)
    outcome = beside.sync(table)
    assert (outcome.table, outcome.conflict) == ("db.renamed", False)
    with pytest.raises(AlreadyExists, match=r"it is lake\.db\.renamed"):
        beside.start(table)


def test_catalogs_of_one_metastore_do_not_both_take_a_table_over(beside: BesideHive) -> None:
    table = upgraded(beside)
    other = CatalogName("other")
    warehouse = (beside.directory / "other").as_uri()
    beside.services.namespaces.create_catalog(other, warehouse, "thrift://fake:9083", {})
    with pytest.raises(AlreadyExists, match=r"it is lake\.db\.t0"):
        beside.operations.start(other, table.name, None, {})


def test_who_may_know_of_a_difference_is_told(beside: BesideHive) -> None:
    """Hive notes who has altered a table or partition last, and when."""
    table = upgraded(beside)
    there = beside.metastore.table("db", table.short)
    altered = {"last_modified_by": "bea", "last_modified_time": "1700000000"}
    beside.metastore.add_table(replace(there, type="VIRTUAL_VIEW", parameters={**there.parameters, **altered}))
    beside.sync(table)
    words = "was last altered by bea, 2023-11-14 22:13 UTC; the Hive table's owner is ann"
    assert likely_author(beside, table) == f"the Hive table {words}"
    beside.metastore.add_table(there)
    text = a_storage(uri(table.path / "p=z"), serde=TEXT)
    beside.metastore.add_partition("db", table.short, replace(a_hive_partition("z", storage=text), parameters=altered))
    beside.sync(table)
    assert likely_author(beside, table) == f"the partition {words}"
    beside.metastore.drop_partition("db", table.short, "p=z")
    beside.sync(table)
    assert likely_author(beside, table) is None
