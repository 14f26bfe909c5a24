"""Columns that records have and the table lacks: both engines add them before the first row that has a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import firn
import firn.spark
from firn.drains.engine import Engine
from firn.errors import FirnError
from tests.integration.streams.engines import open_drain, run_drain
from tests.integration.streams.test_drain import changes, create
from tests.integration.streams.topics import Topic
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
NewTopic = Callable[..., Topic]


def rows(server: RunningServer, name: str) -> list[tuple[Any, ...]]:
    return sorted(server.rows(f"SELECT id, more, kind FROM lake.db.{name}.merged"))


def test_a_drain_adds_the_columns_that_records_have(server: RunningServer, new_topic: NewTopic, engine: Engine) -> None:
    name = f"wider_{engine}"
    topic = new_topic(1)
    table = create(server, topic, name)
    topic.send([(1, {"id": 1, "n": 1})])
    assert run_drain(server, f"lake.db.{name}", engine).added_columns == ()
    topic.send(
        [
            (2, {"id": 2, "n": 2, "more": 5, "gone": None}),
            (3, {"id": 3, "n": 3, "more": 1.5, "kind": "z", "N": 7}),  # the case of `n` differs
            (4, {"id": 4, "n": 4, "more": 2.5, "kind": "x"}),
        ]
    )
    done = run_drain(server, f"lake.db.{name}", engine)
    assert (done.commits, sorted(done.added_columns)) == (1, ["kind", "more"])
    assert rows(server, name) == [(1, None, None), (2, 5.0, None), (4, 2.5, "x")]
    (bad,) = table.log.quarantine.list().records
    assert (bad.offset, bad.reason, bad.column) == (2, "the table lacks the column", "N")
    topic.send([(5, {"id": 5, "n": 5, "kind": "y"})])
    assert run_drain(server, f"lake.db.{name}", engine).added_columns == ()
    assert len(changes(server, name)) == 4


def test_a_drain_that_dies_after_it_has_added_columns_loses_and_doubles_nothing(
    server: RunningServer, new_topic: NewTopic, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"dies_{engine}"
    topic = new_topic(1)
    create(server, topic, name)
    topic.send([(1, {"id": 1, "n": 1, "more": 5, "kind": "x"})])
    drain = open_drain(server, f"lake.db.{name}", engine)
    add = drain.new_columns.add

    def add_and_die(types: dict[str, str]) -> bool:
        add(types)
        raise FirnError("the process was killed")

    monkeypatch.setattr(drain.new_columns, "add", add_and_die)
    with pytest.raises(FirnError, match="was killed"):
        drain.run()
    assert rows(server, name) == []
    assert run_drain(server, f"lake.db.{name}", engine).commits == 1
    assert rows(server, name) == [(1, 5, "x")]


def test_a_read_with_the_log_has_a_new_column_once_a_drain_has_added_it(
    server: RunningServer, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    table = create(server, topic, "waiting")
    topic.send([(1, {"id": 1, "n": 1, "more": 5, "kind": "x"})])
    client = firn.connect(server.url)

    def read() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        in_spark = firn.spark.read("lake.db.waiting", spark=server.spark, log=True).collect()
        return client.scan("db.waiting", log=True).to_arrow().to_pylist(), [row.asDict() for row in in_spark]

    known = {"id": 1, "n": 1, "day": None}
    assert read() == ([known], [known])
    table.drain()
    whole = {**known, "more": 5, "kind": "x"}
    assert read() == ([whole], [whole])


def test_a_table_may_leave_unknown_values_out_or_take_their_records_for_bad(
    server: RunningServer, new_topic: NewTopic, engine: Engine
) -> None:
    for schema, kept in (("ignore", [1, 2]), ("stop", [1])):
        topic, name = new_topic(1), f"{schema}_{engine}"
        table = create(server, topic, name, properties={"firn.log.schema": schema})
        topic.send([(1, {"id": 1, "n": 1}), (2, {"id": 2, "n": 2, "more": 5})])
        assert run_drain(server, f"lake.db.{name}", engine).added_columns == ()
        assert sorted(row[0] for row in changes(server, name)) == kept
        assert table.log.quarantine.show().rows == 2 - len(kept)
