"""Bad records on a real broker: into the quarantine once, before the changes of their batch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from firn.drains.engine import Engine
from firn.errors import Refused
from firn.spark import DrainStopped
from firn.spark.log_drain import _open
from tests.integration.streams.engines import open_drain, run_drain
from tests.integration.streams.test_drain import change, changes, create, merged
from tests.integration.streams.topics import Topic
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
NewTopic = Callable[..., Topic]


def bad(key: int) -> tuple[int, Any]:
    return key, {"id": key, "n": "many"}


def quarantined(server: RunningServer, name: str) -> list[tuple[Any, ...]]:
    """Partition, offset, reason and column of each row, in the order of the log."""
    return sorted(server.rows(f"SELECT partition, offset, reason, column FROM lake.db.{name}.quarantine"))


def quarantine_commits(server: RunningServer, name: str) -> int:
    return len(server.rows(f"SELECT snapshot_id FROM lake.db.{name}.quarantine.snapshots"))


def test_bad_records_go_to_the_quarantine_and_the_others_to_the_table(
    server: RunningServer, new_topic: NewTopic, engine: Engine
) -> None:
    topic = new_topic()
    table = create(server, topic, "mixed", properties={"firn.log.max-batch-rows": "4"})
    topic.send([change(0, 1), bad(0), change(1, 1), change(2, 2), bad(1), bad(3), change(4, 4)], commit=True)
    run_drain(server, "lake.db.mixed", engine)
    assert merged(server, "mixed") == {0: 1, 1: 1, 2: 2, 4: 4}
    fits = "the value does not fit the column"
    assert quarantined(server, "mixed") == [(0, 1, fits, "n"), (1, 1, fits, "n"), (1, 2, fits, "n")]
    row = server.rows("SELECT * FROM lake.db.mixed.quarantine WHERE partition = 0")[0]
    assert (row[0], row[1], row[5], row[6]) == (
        topic.name,
        table.log.show().topic_id,
        bytearray(b"0"),
        bytearray(b'{"id": 0, "n": "many"}'),
    )
    assert table.log.show().lag == 0

    topic.send([change(0, 5)])  # no drain looks for bad records where the last batch had none
    assert run_drain(server, "lake.db.mixed", engine).commits == 1
    assert merged(server, "mixed")[0] == 5
    assert len(quarantined(server, "mixed")) == 3


def test_a_record_with_one_bad_change_is_bad_as_a_whole(server: RunningServer, new_topic: NewTopic) -> None:
    topic = new_topic()
    create(server, topic, "parts")
    topic.send([bad(0), change(0, 1), change(1, 1)])
    dying = _open("lake.db.parts", server.spark, None)
    real = dying._read

    def read_twice(*arguments: Any, **options: Any) -> Any:
        """As from a decoder that makes two changes of a record: a good one beside the bad one."""
        decoded = real(*arguments, **options)
        return decoded.unionByName(decoded.where("_firn_reason IS NOT NULL").selectExpr(*_good(decoded.columns)))

    dying._read = read_twice  # type: ignore[method-assign]
    dying.run()
    assert sorted(changes(server, "parts")) == [(0, 1, "U"), (1, 1, "U")]
    assert len(quarantined(server, "parts")) == 1


def _good(columns: list[str]) -> list[str]:
    values = {"_firn_reason": "CAST(NULL AS STRING)", "_firn_column": "CAST(NULL AS STRING)", "n": "CAST(7 AS BIGINT)"}
    return [f"{values.get(name, name)} AS {name}" for name in columns]


@pytest.mark.parametrize("fails", ["before the changes", "with a lost answer"])
def test_a_drain_that_dies_between_its_two_commits_loses_and_doubles_nothing(
    server: RunningServer, new_topic: NewTopic, engine: Engine, fails: str
) -> None:
    name = "between" if fails.startswith("before") else "lost"
    topic = new_topic()
    table = create(server, topic, name)
    topic.send([bad(0), change(0, 1), change(2, None, "D"), bad(1), change(1, 1)])
    dying = open_drain(server, f"lake.db.{name}", engine)

    def die(*_arguments: Any) -> None:
        raise KeyboardInterrupt

    if fails == "before the changes":
        # Spark has read no record when it begins to append, and the first bad one ends that.
        dying.append = die if engine is Engine.LIGHT else _second(dying.append, die)
    else:
        real = dying.bad_records.append

        def append_and_die(*arguments: Any) -> None:
            real(*arguments)
            raise KeyboardInterrupt

        dying.bad_records.append = append_and_die
    with pytest.raises(KeyboardInterrupt):
        dying.run()
    assert (len(quarantined(server, name)), changes(server, name)) == (2, [])
    # What was good is bad now, and belongs to the batch of the quarantine's newest commit.
    server.spark.sql(f"ALTER TABLE lake.db.{name} SET TBLPROPERTIES ('firn.log.deletes' = 'stop')")
    run_drain(server, f"lake.db.{name}", engine)
    assert sorted(changes(server, name)) == [(0, 1, "U"), (1, 1, "U")]
    assert [row[:2] for row in quarantined(server, name)] == [(0, 0), (0, 2), (1, 0)]
    assert table.log.show().lag == 0
    assert quarantine_commits(server, name) == 2


def _second(first: Callable[..., None], second: Callable[..., None]) -> Callable[..., None]:
    """A function whose second call does something else."""
    calls = iter([first])
    return lambda *arguments: next(calls, second)(*arguments)  # noqa: PLW0108 -- another function each time


def test_a_lost_answer_of_the_quarantine_adds_no_row_twice(
    server: RunningServer, new_topic: NewTopic, engine: Engine
) -> None:
    topic = new_topic()
    create(server, topic, "answers")
    topic.send([bad(0), change(1, 1), bad(3)])
    dying = open_drain(server, "lake.db.answers", engine)
    dying.bad_records.pause = lambda _seconds: None
    real, calls = dying.bad_records.append, list[int]()

    def append_and_lose(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError("the request is lost")
        real(*arguments)
        raise ConnectionError("the answer is lost")

    dying.bad_records.append = append_and_lose
    dying.run()
    assert (len(calls), len(quarantined(server, "answers")), quarantine_commits(server, "answers")) == (2, 2, 1)
    assert merged(server, "answers") == {1: 1}


def test_too_many_bad_records_stop_the_drain_and_write_nothing(
    server: RunningServer, new_topic: NewTopic, engine: Engine
) -> None:
    topic = new_topic()
    table = create(server, topic, "wrong")
    topic.send([change(key, 1) for key in range(1_000)] + [bad(key) for key in range(120)])
    with pytest.raises(DrainStopped) as error:
        run_drain(server, "lake.db.wrong", engine)
    assert "120 of 1,120 records" in error.value.message
    assert "120 × the value does not fit the column (column n)" in error.value.message
    assert changes(server, "wrong") == []
    server.spark.sql("ALTER TABLE lake.db.wrong SET TBLPROPERTIES ('firn.log.max-bad-share' = '0.2')")
    run_drain(server, "lake.db.wrong", engine)
    assert (len(changes(server, "wrong")), len(quarantined(server, "wrong")), table.log.show().lag) == (1_000, 120, 0)


def test_two_drains_that_create_the_quarantine_at_once_both_end_well(
    server: RunningServer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    create(server, topic, "racing", properties={"firn.log.max-batch-rows": "10"})
    topic.send([bad(key) if key % 5 == 0 else change(key, 1) for key in range(40)])
    older, newer = (_open("lake.db.racing", server.spark, None) for _ in range(2))
    stopped = list[str]()

    def run_older() -> None:
        try:
            older.run()
        except Refused as error:
            stopped.append(error.message)

    thread = threading.Thread(target=run_older)
    thread.start()
    newer.run()
    thread.join()
    assert len(changes(server, "racing")) == 32
    assert len(quarantined(server, "racing")) == 8
    assert all("another drain has started" in message for message in stopped)


def test_an_older_drain_cannot_register_at_the_quarantine(
    server: RunningServer, new_topic: NewTopic, engine: Engine
) -> None:
    topic = new_topic()
    create(server, topic, "fenced")
    topic.send([bad(0), change(1, 1)])
    older = open_drain(server, "lake.db.fenced", engine)
    run_drain(server, "lake.db.fenced", engine)
    topic.send([bad(0)])
    with pytest.raises(DrainStopped, match="another drain has started"):
        older.run()
    assert len(quarantined(server, "fenced")) == 1
