"""The change feed, read without Spark: folded onto the rows at its start, it gives those at its end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

import firn
from catalog.jobs.job import JobKind
from firn.errors import Invalid, Refused
from firn.protocol.partial import SET
from firn.scan.newest import OP
from optimizer.client import connect
from tests.databases import ON_SQLITE
from tests.server.lake import BASE, CHANGE, ORDERS, Lake, altered
from tests.server.listening import listening
from tests.server.service.images.changing import KEYS, Changing, Rows, Step
from tests.server.service.images.keyed_lake import KeyedLake
from tests.server.service.images.test_client_scan import connected

pytestmark = ON_SQLITE


@pytest.fixture
def orders(lake: Lake) -> Iterator[KeyedLake]:
    """An empty keyed table without a commit."""
    lake.create_keyed()
    yield KeyedLake(lake)
    lake.services.images.stop()


def read(client: firn.Client, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.tables["db.orders"].changes(**options).to_pylist()
    return rows


def steps(feed: list[dict[str, Any]]) -> list[Step]:
    """The changes of a feed with both images."""
    changed = []
    for row in feed:
        before, after = row["_before"], row["_after"]
        assert row["_change_type"] == ("insert" if before is None else "delete" if after is None else "update")
        assert row["id"] == (before or after)["id"]
        changed.append((row["id"], before and before["note"], after and after["note"]))
    return changed


def fold(rows: Rows, changes: list[Step]) -> Rows:
    folded = dict(rows)
    for key, before, after in changes:
        assert folded.get(key) == before
        folded.pop(key, None)
        if after is not None:
            folded[key] = after
    return folded


BY_NOTE = {"firn.sequence-field": "note"}
"""A table whose later changes are those with the higher note."""
INSERT_ONLY = {"firn.insert-only": "true"}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("properties", [{}, BY_NOTE, INSERT_ONLY], ids=["by commit", "by note", "insert-only"])
def test_a_feed_leads_from_one_state_to_the_other(lake: Lake, properties: dict[str, str], seed: int) -> None:
    lake.create_keyed(ORDERS, **properties, **{"firn.read.max-wait": "60 s"})
    orders = KeyedLake(lake)
    with listening(orders.lake.client.app) as url, firn.connect(url) as client:
        by_note, insert_only = (properties is kind for kind in (BY_NOTE, INSERT_ONLY))
        world = Changing(orders, connect(url), random.Random(seed), by_note=by_note, insert_only=insert_only)
        world.run(18)
        assert orders.read() == world.rows
        versions = sorted(world.states)
        for _ in range(6):
            since, until = sorted(world.chance.sample(versions, 2))
            net = steps(read(client, since=since, until=until, images="both"))
            assert fold(world.states[since], net) == world.states[until]
            assert len(net) == sum(
                world.states[since].get(key) != world.states[until].get(key)
                for key in world.states[since].keys() | world.states[until].keys()
            )
            each = read(client, since=since, until=until, images="both", each="change")
            happened = [step for version in range(since + 1, until + 1) for step in world.steps.get(version, ())]
            assert sorted(steps(each), key=repr) == sorted(happened, key=repr)
            fold(world.states[since], steps(each))
            assert [row["_version"] for row in each] == sorted(row["_version"] for row in each)
    lake.services.images.stop()


class ChangingPartly(Changing):
    """As `Changing`, with changes that set the note, no column besides the key, or all columns."""

    def change(self) -> None:
        lines, steps = [], []
        for _ in range(self.chance.randint(1, 5)):
            key, note = self.chance.randrange(KEYS), self.chance.choice(["x", "y", None])
            op, set_ids = self.chance.choice("UUUD"), self.chance.choice([None, "2", "1", ""])
            lines.append({"id": key, "note": note, OP: op, SET: set_ids})
            before = self.rows.get(key)
            if op == "D":
                self.rows.pop(key, None)
            elif set_ids in (None, "2"):
                self.rows[key] = note
            else:
                self.rows.setdefault(key, None)
            steps.append((key, before, self.rows.get(key)))
        self.orders._append(CHANGE, lines)
        self.record(steps)


@pytest.mark.parametrize("seed", range(3))
def test_a_net_feed_of_changes_that_set_some_columns_leads_from_one_state_to_the_other(lake: Lake, seed: int) -> None:
    lake.create_keyed(ORDERS, **{"firn.partial": "true", "firn.read.max-wait": "60 s"})
    orders = KeyedLake(lake)
    with listening(orders.lake.client.app) as url, firn.connect(url) as client:
        world = ChangingPartly(orders, connect(url), random.Random(seed))
        world.run(14)
        assert orders.read() == world.rows
        versions = sorted(world.states)
        for _ in range(6):
            since, until = sorted(world.chance.sample(versions, 2))
            rows = dict(world.states[since])
            for change in read(client, since=since, until=until, images="both"):
                before, after = change["_before"], change["_after"]
                assert (None if before is None else before["note"]) == rows.get(change["id"])
                assert (before is None) is (change["id"] not in rows)
                rows.pop(change["id"], None)
                if after is not None:
                    rows[change["id"]] = after["note"]
            assert rows == world.states[until]
            each = read(client, since=since, until=until, images="both", each="change")
            assert follow(world.states[since], each) == world.states[until]
            happened = [key for at in range(since + 1, until + 1) for key, _, _ in world.steps.get(at, ())]
            assert len(each) <= len(happened), "a delete of a row that there is not is no change"
            assert [row["_version"] for row in each] == sorted(row["_version"] for row in each)
    lake.services.images.stop()


def follow(rows: Rows, feed: list[dict[str, Any]]) -> Rows:
    """The rows after a feed of each change, in which each change begins where the one before has ended."""
    rows = dict(rows)
    for change in feed:
        before, after = change["_before"], change["_after"]
        assert (before is None) is (change["id"] not in rows)
        assert (None if before is None else before["note"]) == rows.pop(change["id"], None)
        if after is not None:
            rows[change["id"]] = after["note"]
    return rows


def test_each_change_of_a_key_shows_the_whole_row(lake: Lake) -> None:
    lake.create_keyed(ORDERS, **{"firn.partial": "true"})
    orders = KeyedLake(lake)
    orders.insert((1, "c"), (2, "x"))
    lines = [(1, "b", "U", "2"), (1, "z", "U", ""), (2, None, "D", None), (1, None, "D", None), (1, "a", "U", "2")]
    orders._append(CHANGE, [{"id": key, "note": note, OP: op, SET: set_ids} for key, note, op, set_ids in lines])
    with connected(orders) as client:
        feed = steps(read(client, since=1, images="both", each="change"))
    assert feed == [(1, "c", "b"), (1, "b", "b"), (2, "x", None), (1, "b", None), (1, None, "a")]
    lake.services.images.stop()


def test_a_feed_shows_rows_before_and_after(orders: KeyedLake) -> None:
    orders.insert((1, "a"))
    orders.upsert((2, "b"))
    orders.upsert((1, "c"), (3, "d"))
    orders.delete(2)
    with connected(orders) as client:
        assert [(row["_change_type"], row["id"], row["note"]) for row in read(client, since=2, each="change")] == [
            ("update", 1, "c"),
            ("insert", 3, "d"),
            ("delete", 2, "b"),
        ]
        (change,) = read(client, since=3, images="both")
        own = {"id": 2, "_change_type": "delete", "_version": 4, "_before": {"id": 2, "note": "b"}, "_after": None}
        assert {name: change[name] for name in own} == own
        assert change["_committed_at"].tzinfo is not None
        committed_at = change["_committed_at"]
        assert read(client, since=committed_at) == read(client, since=4) == read(client, since=4, each="change") == []
        assert len(read(client, since=0, until=committed_at)) == 2
        assert steps(read(client, since=0, images="both", each="change")) == [
            (1, None, "a"),
            (2, None, "b"),
            (1, "a", "c"),
            (3, None, "d"),
            (2, "b", None),
        ]


def test_columns_are_those_of_now(orders: KeyedLake) -> None:
    orders.upsert((1, "a"))
    column = {"id": 3, "name": "size", "type": "int", "required": False}
    schema = {
        "type": "struct",
        "identifier-field-ids": [1],
        "fields": [*orders.lake.metadata(BASE)["schemas"][-1]["fields"], column],
    }
    orders.lake.commit(
        altered(
            BASE,
            {"action": "add-schema", "schema": schema},
            {"action": "set-current-schema", "schema-id": -1},
        )
    )
    orders._append(CHANGE, [{"id": 1, "note": "b", "size": 5, "_op": "U"}])
    with connected(orders) as client:
        (change,) = read(client, since=1, images="both")
    assert (change["_before"], change["_after"]) == (
        {"id": 1, "note": "a", "size": None},
        {"id": 1, "note": "b", "size": 5},
    )


def test_an_expired_start_names_the_first_version_left(orders: KeyedLake) -> None:
    lake = orders.lake
    for number in range(4):
        orders.upsert((1, f"a{number}"))
    first, second, *_ = [snapshot["snapshot-id"] for snapshot in lake.metadata(CHANGE)["snapshots"]]
    lease = lake.lease(JobKind.EXPIRE)
    lake.commit(altered(CHANGE, {"action": "remove-snapshots", "snapshot-ids": [first, second]}), lease=lease)
    with connected(orders) as client:
        for since in (0, 1, "2020-01-01T00:00:00Z"):
            with pytest.raises(Refused, match="has expired; the first version that is left is 3") as refused:
                read(client, since=since)
            assert "since version 3" in (refused.value.hint or "")
        assert steps(read(client, since=3, images="both")) == [(1, "a2", "a3")]


def test_what_has_no_changes_is_refused(orders: KeyedLake) -> None:
    orders.upsert((1, "a"))
    orders.lake.create()
    with connected(orders) as client:
        for since, until, message in (
            (9, None, "has no version 9: its newest version is 1"),
            (1, 0, "version 0 of db.orders comes before version 1"),
            ("yesterday", None, "neither a version nor a time"),
            ("2026-01-01T00:00:00", None, "has no zone"),
        ):
            with pytest.raises(Invalid, match=message):
                read(client, since=since, until=until)
        with pytest.raises(Invalid, match="no primary key"):
            client.tables["db.plain"].changes(since=1)
