"""Retries of records in the quarantine, on a real broker: once each, also if the process dies."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import firn
from firn.cli.app import run as run_command
from firn.errors import Refused
from firn.spark import drain, retry_quarantine
from firn.spark.log_drain import _open
from firn.spark.quarantine_retry import Retry
from firn.spark.target import load_target
from tests.integration.streams.test_drain import change, changes, create, merged, run_job
from tests.integration.streams.test_quarantine import bad, quarantine_commits, quarantined
from tests.integration.streams.topics import Topic
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
NewTopic = Callable[..., Topic]
EXPIRE_AT_ONCE = {"firn.expire.max-age": "0 s", "firn.expire.min-snapshots": "1"}
STOP = {"firn.log.deletes": "stop"}


def allow_deletes(server: RunningServer, name: str) -> None:
    """What was bad is good now."""
    server.spark.sql(f"ALTER TABLE lake.db.{name} SET TBLPROPERTIES ('firn.log.deletes' = 'apply')")


def open_retry(server: RunningServer, name: str) -> Retry:
    table = firn.connect(server.url).tables[f"db.{name}"]
    writer = table.writers.register("quarantine")
    return Retry(server.spark, table, load_target(server.spark, f"lake.db.{name}"), writer)


def test_a_retry_sends_what_is_good_now_and_keeps_what_is_still_bad(server: RunningServer, new_topic: NewTopic) -> None:
    topic = new_topic()
    create(server, topic, "again", properties=STOP | EXPIRE_AT_ONCE)
    assert retry_quarantine("lake.db.again", server.spark).sent == 0  # there is no quarantine yet
    topic.send([change(0, 1), change(1, 1), change(0, None, "D"), change(2, 2)])
    drain("lake.db.again", server.spark)
    topic.send([bad(1)])
    drain("lake.db.again", server.spark)
    assert quarantine_commits(server, "again") == 2
    assert run_job(server, "again.quarantine", "rewrite")["rewritten_files"] == 2
    assert run_job(server, "again.quarantine", "expire")["expired_snapshots"] == 2
    assert (quarantine_commits(server, "again"), len(quarantined(server, "again"))) == (1, 2)
    assert len(quarantined(server, "again")) == 2
    assert retry_quarantine("lake.db.again", server.spark).still_bad == 2
    allow_deletes(server, "again")
    retried = retry_quarantine("lake.db.again", server.spark)
    assert (retried.sent, retried.still_bad, retried.waiting, retried.is_ordered_by_field) == (1, 1, 0, False)
    assert merged(server, "again") == {1: 1, 2: 2}
    assert [row[:2] for row in quarantined(server, "again")] == [(1, 1)]
    assert retry_quarantine("lake.db.again", server.spark).sent == 0
    drain("lake.db.again", server.spark)
    assert len(changes(server, "again")) == 4


@pytest.mark.parametrize("moment", ["before the commit", "with a lost answer", "before the removal"])
def test_a_retry_that_dies_sends_no_record_twice(server: RunningServer, new_topic: NewTopic, moment: str) -> None:
    name = f"dying_{moment.rsplit(maxsplit=1)[-1]}"
    topic = new_topic()
    create(server, topic, name, properties=STOP)
    topic.send([change(key, None, "D") for key in range(10)])
    drain(f"lake.db.{name}", server.spark)
    allow_deletes(server, name)
    dying = open_retry(server, name)
    real = dying.append

    def die(*arguments: Any) -> None:
        if moment == "with a lost answer":
            real(*arguments)
        raise KeyboardInterrupt

    setattr(dying, "remove" if moment == "before the removal" else "append", die)
    with pytest.raises(KeyboardInterrupt):
        dying.run()
    assert len(quarantined(server, name)) == 10
    assert len(changes(server, name)) == (0 if moment == "before the commit" else 10)
    retried = retry_quarantine(f"lake.db.{name}", server.spark)
    assert retried.sent == (10 if moment == "before the commit" else 0)
    assert (len(changes(server, name)), quarantined(server, name)) == (10, [])


def test_a_retry_leaves_records_alone_that_a_drain_may_commit_itself(
    server: RunningServer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    create(server, topic, "ahead", properties=STOP)
    topic.send([change(0, 1), change(0, None, "D")])
    drain("lake.db.ahead", server.spark)
    topic.send([change(0, None, "D"), change(2, 1)])
    dying = _open("lake.db.ahead", server.spark, None)

    def die(*_arguments: Any) -> None:
        raise KeyboardInterrupt

    dying.append = die  # type: ignore[method-assign, assignment]
    dying.bad_records._is_likely = dying.bad_records._has_looked = True  # writes bad records first
    dying.bad_records._writer.register(create=False)
    with pytest.raises(KeyboardInterrupt):
        dying.run()
    assert [row[:2] for row in quarantined(server, "ahead")] == [(0, 1), (0, 2)]
    allow_deletes(server, "ahead")
    retried = retry_quarantine("lake.db.ahead", server.spark)
    assert (retried.sent, retried.waiting) == (1, 1)
    drain("lake.db.ahead", server.spark)
    assert retry_quarantine("lake.db.ahead", server.spark).sent == 1
    assert [row[2] for row in changes(server, "ahead")].count("D") == 2


def test_of_two_retries_the_older_one_sends_nothing(server: RunningServer, new_topic: NewTopic) -> None:
    topic = new_topic()
    create(server, topic, "rivals", properties=STOP)
    topic.send([change(0, None, "D"), change(1, None, "D")])
    drain("lake.db.rivals", server.spark)
    allow_deletes(server, "rivals")
    older = open_retry(server, "rivals")
    newer = open_retry(server, "rivals")
    with pytest.raises(Refused, match="another retry has started"):
        older.run()
    assert newer.run().sent == 2
    assert len(changes(server, "rivals")) == 2


def test_the_commands_list_show_and_drop_bad_records(
    server: RunningServer, new_topic: NewTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic()
    create(server, topic, "listed")
    topic.send([bad(0), change(1, 1), bad(3), (0, {"id": None})])

    def run(*arguments: str) -> Any:
        capsys.readouterr()
        assert run_command(["quarantine", *arguments, "--server", server.url, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert run("list", "db.listed")["rows"] == 0
    assert run("drop", "db.listed", "--yes") == {"dropped": 0}
    drain("lake.db.listed", server.spark)
    listed = run("list", "db.listed", "--limit", "1")
    fits = {"reason": "the value does not fit the column", "column": "n", "records": 2}
    assert (listed["rows"], listed["reasons"][0], len(listed["records"])) == (3, fits, 1)
    (record,) = run("show", "db.listed", "1", "1")
    assert (record["value"], record["key"], record["topic"]) == ('{"id": 3, "n": "many"}', "3", topic.name)
    assert run("drop", "db.listed", "--yes") == {"dropped": 3}
    assert quarantined(server, "listed") == []
    topic.send([bad(1)])
    drain("lake.db.listed", server.spark)
    assert [row[:2] for row in quarantined(server, "listed")] == [(1, 2)]
