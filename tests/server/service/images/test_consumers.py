"""Consumers of changes: expiry keeps what they have not read, and a read never skips a version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import firn
from catalog.errors import CommitRefused, Conflict, Invalid, NotFound
from catalog.jobs.job import JobKind
from catalog.keyed.consumer import MOST_CONSUMERS
from firn.errors import NotFound as Absent
from firn.errors import Refused
from firn.spark import changes
from server.service.commit import commit_target
from server.service.commit.commit_path import Committer
from tests.databases import ON_SQLITE
from tests.factories import LAKE
from tests.server.lake import CHANGE, ORDERS, Lake, altered, snapshot_ids
from tests.server.service.images.keyed_lake import KeyedLake
from tests.server.service.images.test_changes import read
from tests.server.service.images.test_client_scan import connected

pytestmark = ON_SQLITE


@pytest.fixture
def orders(lake: Lake) -> Iterator[KeyedLake]:
    """A keyed table with five versions, each an upsert of key 1."""
    lake.create_keyed()
    table = KeyedLake(lake)
    for number in range(5):
        table.upsert((1, f"a{number}"))
    yield table
    lake.services.images.stop()


def expire(lake: Lake, *snapshots: int) -> None:
    removal = altered(CHANGE, {"action": "remove-snapshots", "snapshot-ids": list(snapshots)})
    lake.commit(removal, lease=lake.lease(JobKind.EXPIRE))


def forget(lake: Lake, name: str) -> None:
    """Let a consumer's time be over."""
    with lake.services.database.writing() as uow:
        consumer = uow.consumers.find(lake.services.keyed.pin(LAKE, ORDERS).relation.id, name)
        assert consumer is not None
        uow.consumers.put(replace(consumer, kept_until=uow.now() - timedelta(seconds=1)))


def test_a_consumer_reads_on_from_where_it_is(orders: KeyedLake) -> None:
    with connected(orders) as client:
        consumers = client.tables["db.orders"].consumers
        assert consumers.move("a b/c", to=2).version == 2
        (change,) = read(client, since="consumer:a b/c")
        assert (change["note"], change["_version"]) == ("a4", 5)
        (shown,) = consumers.list()
        assert (shown.lag_versions, shown.lag_rows, shown.first_version_left) == (3, 3, None)
        assert shown.lag_seconds > 0
        assert (shown.kept_until - shown.moved_at) == timedelta(days=7)
        assert consumers.move("a b/c", expected_version=2).version == 5
        assert read(client, since="consumer:a b/c") == []
        with pytest.raises(Refused, match="is at version 5, not at 2"):
            consumers.move("a b/c", to=4, expected_version=2)
        assert consumers.get("a b/c").lag_versions == 0
        consumers.drop("a b/c")
        with pytest.raises(Absent, match="no consumer 'a b/c'"):
            read(client, since="consumer:a b/c")
        with pytest.raises(Absent, match="no consumer 'a b/c'"):
            consumers.drop("a b/c")


def test_paimon_5819_expiry_keeps_what_the_slowest_consumer_needs(orders: KeyedLake) -> None:
    lake = orders.lake
    lake.services.consumers.move(LAKE, ORDERS, "fast", "4")
    lake.services.consumers.move(LAKE, ORDERS, "slow", "2")
    first, second, third, *_ = snapshot_ids(lake.metadata(CHANGE))
    for snapshot in (second, third):
        with pytest.raises(CommitRefused, match="a version that readers may still use"):
            expire(lake, snapshot)
        end_jobs(lake)
    task = lake.services.tasks.build_unqueued_task(LAKE, ORDERS, JobKind.EXPIRE, {})
    assert {second, third} <= task.context.needed["change"]
    assert first not in task.context.needed["change"]
    expire(lake, first)
    with connected(orders) as client:
        assert [row["_version"] for row in read(client, since="consumer:slow", each="change")] == [3, 4, 5]


def end_jobs(lake: Lake) -> None:
    with lake.services.database.writing() as uow:
        job = uow.jobs.active_of(lake.services.keyed.pin(LAKE, ORDERS).relation.id)
        assert job is not None
    lake.services.jobs.cancel(job.id)


def test_a_consumer_that_stops_for_long_is_told_and_never_skips(orders: KeyedLake) -> None:
    lake = orders.lake
    lake.services.consumers.move(LAKE, ORDERS, "slow", "1")
    forget(lake, "slow")
    first, second, *_ = snapshot_ids(lake.metadata(CHANGE))
    expire(lake, first, second)
    with connected(orders) as client:
        with pytest.raises(Refused, match=r"consumer 'slow' is behind: version 1 of db\.orders has expired") as refused:
            read(client, since="consumer:slow")
        assert "first version that is left is 3" in refused.value.message
        assert "firn consumer reset db.orders slow --to 3" in (refused.value.hint or "")
        assert client.tables["db.orders"].consumers.get("slow").first_version_left == 3
        with pytest.raises(Refused, match=r"version 2 of db\.orders has expired"):
            client.tables["db.orders"].consumers.move("slow", to=2)
        client.tables["db.orders"].consumers.move("slow", to=3)
        assert len(read(client, since="consumer:slow", each="change")) == 2


def test_a_consumer_that_registers_during_an_expiry_keeps_its_versions(
    orders: KeyedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = orders.lake
    first, *_ = snapshot_ids(lake.metadata(CHANGE))
    real, tries = Committer._try_once, list[int]()

    def late(self: Committer, request: object) -> object:
        if not tries:
            tries.append(1)
            loaded = commit_target.list_consumed_versions
            monkeypatch.setattr(commit_target, "list_consumed_versions", lambda uow, keyed: [])
            monkeypatch.setattr("server.service.commit.transaction.list_consumed_versions", loaded)
            lake.services.consumers.move(LAKE, ORDERS, "new", "1")
            try:
                return real(self, request)  # type: ignore[arg-type]
            finally:
                monkeypatch.setattr(commit_target, "list_consumed_versions", loaded)
        return real(self, request)  # type: ignore[arg-type]

    monkeypatch.setattr(Committer, "_try_once", late)
    with pytest.raises(CommitRefused, match="a version that readers may still use"):
        expire(lake, first)
    assert first in snapshot_ids(lake.metadata(CHANGE))


def test_bad_consumers_are_refused(orders: KeyedLake) -> None:
    consumers = orders.lake.services.consumers
    for name in ("", " a", "a\n", "x" * 256):
        with pytest.raises(Invalid, match="printable characters"):
            consumers.move(LAKE, ORDERS, name, None)
    with pytest.raises(Invalid, match="no version 9"):
        consumers.move(LAKE, ORDERS, "c", "9")
    with pytest.raises(NotFound, match="no consumer 'c'"):
        consumers.move(LAKE, ORDERS, "c", None, expected=1)
    for number in range(MOST_CONSUMERS):
        consumers.move(LAKE, ORDERS, f"c{number}", None)
    with pytest.raises(Conflict, match="the most that a table can have"):
        consumers.move(LAKE, ORDERS, "one more", None)
    orders.lake.services.drop(LAKE, ORDERS, purge=False)


def test_a_function_gets_the_same_changes_again_until_it_succeeds(
    orders: KeyedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[tuple[int, int]]()

    def fail(plan: Any, version: int) -> None:
        calls.append((plan.since.version, version))
        if len(calls) < 2:
            raise OSError("disk full")

    with connected(orders) as client:
        monkeypatch.setattr(changes, "_require_session", lambda spark: spark)
        monkeypatch.setattr(changes, "client_of", lambda _spark, _table: (client, "lake.db.orders"))
        monkeypatch.setattr(changes, "_build", lambda _spark, _table, plan, _images: plan)
        with pytest.raises(OSError, match="disk full"):
            changes.on_changes("lake.db.orders", fail, consumer="c")
        with firn.connect(client.url) as again:
            monkeypatch.setattr(changes, "client_of", lambda _spark, _table: (again, "lake.db.orders"))
            assert changes.on_changes("lake.db.orders", fail, consumer="c") == 5
    assert calls == [(0, 5), (0, 5)]
    assert orders.lake.services.consumers.get(LAKE, ORDERS, "c").consumer.version == 5


def test_metrics_show_consumers_that_have_versions_to_read(orders: KeyedLake) -> None:
    with connected(orders) as client:
        consumers = client.tables["db.orders"].consumers
        consumers.move('late "one"', to=2)
        consumers.move("done")
    text = orders.lake.client.get("/metrics").text
    lag = next(line for line in text.splitlines() if line.startswith("firn_consumer_lag_versions{"))
    kept = next(line for line in text.splitlines() if line.startswith("firn_consumer_kept_seconds{"))
    assert 'consumer="late \\"one\\""' in lag
    assert lag.endswith(" 3.0")
    assert 6 * 86_400 < float(kept.rpartition(" ")[2]) <= 7 * 86_400
    assert 'consumer="done"' not in text
    forget(orders.lake, 'late "one"')
    kept = next(
        line for line in orders.lake.client.get("/metrics").text.splitlines() if "consumer_kept_seconds{" in line
    )
    assert float(kept.rpartition(" ")[2]) < 0
