"""A few changes of a keyed table over HTTP: values as text, and bounded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import firn
from catalog.jobs.job import JobKind
from firn.errors import Invalid, Refused, Unavailable
from server.service.images.changed_rows import MOST_WAITING
from tests.databases import ON_SQLITE
from tests.server.lake import CHANGE, ORDERS, Lake, altered, snapshot_ids
from tests.server.service.images.keyed_lake import KeyedLake
from tests.server.service.images.test_client_scan import connected

pytestmark = ON_SQLITE
HOSTILE = "<img src=x onerror=alert(1)>\u0000\u202e"


@pytest.fixture
def orders(lake: Lake) -> Iterator[KeyedLake]:
    """An empty keyed table without a commit."""
    lake.create_keyed()
    yield KeyedLake(lake)
    lake.services.changed_rows.stop()


def show(client: firn.Client, **query: Any) -> Any:
    return client.transport.get("/catalogs/lake/tables/db.orders/changes", params=query)


def test_changes_show_rows_before_and_after_and_who_wrote_them(orders: KeyedLake) -> None:
    orders.insert((1, "a"))
    orders.upsert((2, HOSTILE), (3, None))
    orders.upsert((1, "b"))
    orders.delete(3)
    with connected(orders) as client:
        shown = show(client, since=0)
        assert (shown["since"], shown["until"], shown["total"], shown["primary_key"]) == (0, 4, 2, ["id"])
        first, second = shown["rows"]
        assert (first["change_type"], first["key"], first["before"]) == ("insert", {"id": "1"}, None)
        assert (first["after"], second["after"]) == ({"id": "1", "note": "b"}, {"id": "2", "note": HOSTILE})
        _, upserts, update, delete = snapshot_ids_of_all(orders.lake)
        assert (first["snapshot_id"], second["snapshot_id"]) == (update, upserts)
        assert [commit["snapshot_id"] for commit in shown["commits"]][:3] == [delete, update, upserts]
        assert [commit["store"] for commit in shown["commits"]] == ["change", "change", "change", "base"]
        (change,) = show(client, since=2, until=3)["rows"]
        assert (change["change_type"], change["columns"]) == ("update", ["note"])
        assert (change["before"]["note"], change["after"]["note"]) == ("a", "b")
        (deleted,) = show(client, since=3)["rows"]
        assert (deleted["change_type"], deleted["after"], deleted["before"]["note"]) == ("delete", None, None)
        assert show(client, since=4)["rows"] == []


def snapshot_ids_of_all(lake: Lake) -> list[str]:
    return ["base", *map(str, snapshot_ids(lake.metadata(CHANGE)))]


def test_answers_are_bounded(orders: KeyedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    orders.upsert(*((key, "x" * 3_000) for key in range(30)))
    orders.upsert((5, "y"))
    own = orders.lake.services.changed_rows
    with connected(orders) as client:
        shown = show(client, since=0, limit=3)
        assert (shown["total"], len(shown["rows"])) == (30, 3)
        assert shown["rows"][0]["key"] == {"id": "5"}, "the newest commit comes first"
        assert [row["cut"] for row in shown["rows"]] == [[], ["note"], ["note"]]
        assert [len(row["after"]["note"]) for row in shown["rows"]] == [1, 1_000, 1_000]
        with pytest.raises(Invalid, match="less than or equal to 1000"):
            show(client, since=0, limit=1_001)
        monkeypatch.setattr("server.service.images.changed_rows.MOST_CHARACTERS", 2_500)
        assert len(show(client, since=0)["rows"]) < 5
    with connected(orders, changed_rows=replace(own, most_bytes=100)) as client:
        with pytest.raises(Invalid, match=r"too much has changed in db\.orders after version 0") as refused:
            show(client, since=0)
        assert "firn changes db.orders --since 0" in (refused.value.hint or "")
        assert show(client, since=2)["total"] == 0


def test_the_server_does_not_keep_many_threads_for_changes(orders: KeyedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firn.transport.FIRST_PAUSE_SECONDS", 0.0)
    orders.upsert((1, "a"))
    own = orders.lake.services.changed_rows
    with connected(orders) as client:
        for _ in range(MOST_WAITING):
            own._waiting.acquire()
        with pytest.raises(Unavailable, match="reading rows for others"):
            show(client, since=0)
        for _ in range(MOST_WAITING):
            own._waiting.release()
        assert show(client, since=0)["total"] == 1


def test_a_file_that_is_gone_and_history_that_has_expired(orders: KeyedLake) -> None:
    for number in range(3):
        orders.upsert((1, f"a{number}"))
    first, *_ = snapshot_ids(orders.lake.metadata(CHANGE))
    lease = orders.lake.lease(JobKind.EXPIRE)
    orders.lake.commit(altered(CHANGE, {"action": "remove-snapshots", "snapshot-ids": [first]}), lease=lease)
    with connected(orders) as client:
        with pytest.raises(Refused, match="has expired; the first version that is left is 2"):
            show(client, since=0)
        (row,) = show(client, since=2)["rows"]
        assert (row["before"]["note"], row["after"]["note"]) == ("a1", "a2")


def test_changes_that_set_some_columns_show_whole_rows(lake: Lake) -> None:
    lake.create_keyed(ORDERS, **{"firn.partial": "true"})
    orders = KeyedLake(lake)
    orders.insert((1, "a"), (2, "b"))
    orders._append(CHANGE, [{"id": 1, "note": None, "_op": "U", "_set": "1"}, {"id": 2, "note": "c", "_op": "U"}])
    with connected(orders) as client:
        (row,) = show(client, since=1)["rows"]
        assert (row["before"]["note"], row["after"]["note"]) == ("b", "c")
    lake.services.images.stop()
