"""Tables move together, and readers never see a mixed state, whatever dies (docs/protocols.md, rules 8.15 and 8.16)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import firn.spark
from firn.protocol.pipeline_outputs import AuditMode
from firn.protocol.pipelines import RunOut
from firn.protocol.validators import Severity, Validator, ValidatorKind
from tests.command_line import Command
from tests.integration.pipelines.attempts import MOMENTS, Fate, asleep, bury, finish, work_until
from tests.integration.pipelines.together import NAMES, Together
from tests.lossy_proxy import lossy_proxy
from tests.spark_fixtures import RunningServer

IS_SOAK = bool(float(os.environ.get("SOAK_SECONDS", "0")))
PUBLISHES = 50 if IS_SOAK else 4
pytestmark = [pytest.mark.spark, pytest.mark.timeout(1_800 if IS_SOAK else 600)]


def run(together: Together, name: str = "daily") -> RunOut:
    run_id = together.ask(name)
    finish(together.server.url, lambda: together.have_ended(run_id))
    ended = together.get_run(run_id)
    assert ended.error is None
    return ended


def checkpoints(ended: RunOut) -> tuple[str, ...]:
    """The positions that a run has brought its tables to."""
    return (ended.result["checkpoint"], *(result["checkpoint"] for result in ended.result["together"].values()))


def test_one_run_commits_all_tables_and_only_those_that_differ(server: RunningServer) -> None:
    together = Together(server)
    first = run(together, "trips")
    assert first.table == together.table("daily")
    assert list(first.result["together"]) == [together.table("driver"), together.table("trips")]
    together.check_rows()
    together.change_inputs()
    second = run(together)
    together.check_rows()
    assert second.result["mode"] == "incremental"
    assert [len(together.positions(name)) for name in NAMES] == [2, 2, 2]
    together.move_drivers(7)  # which only one table reads
    third = run(together)
    together.check_rows()
    assert [len(together.positions(name)) for name in NAMES] == [3, 2, 2]
    assert together.writer_positions() == list(checkpoints(third))
    nothing = run(together)
    assert nothing.result["mode"] == "nothing"
    assert together.writer_positions() == list(checkpoints(nothing))
    assert [len(together.positions(name)) for name in NAMES] == [3, 2, 2]


def test_an_optimizer_may_die_after_any_step(server: RunningServer) -> None:
    """Each dropped row is in the quarantine once, with the run that has committed it."""
    odd = Validator(name="even", kind=ValidatorKind.EXPECT, severity=Severity.DROP, condition="id % 2 = 0")
    together, quarantined = Together(server, odd), list[tuple[str, str, int]]()
    first = run(together)
    quarantined += [(first.job_id, "even", number) for number in (3, 5, 7, 9, 11)]
    assert first.result["together"][together.table("trips")]["dropped"] == 5
    for number, moment in enumerate(MOMENTS):
        together.add_trips(1_000 * (number + 1), 3)
        before = [together.positions(name) for name in NAMES]
        run_id, fate = together.ask("driver"), Fate(moment)
        work_until(server.url, fate)
        is_committed = moment in ("committed", "reported")
        after = [together.positions(name) for name in NAMES]
        assert [len(new) - len(old) for old, new in zip(before, after, strict=True)] == [int(is_committed)] * 3
        bury(server.url, fate)
        finish(server.url, lambda run_id=run_id: together.have_ended(run_id))  # type: ignore[misc]
        together.check_rows(dropped="id % 2 = 1")
        assert [len(together.positions(name)) for name in NAMES] == [number + 2] * 3
        quarantined.append((run_id, "even", 1_000 * (number + 1) + 1))
        assert together.quarantined() == sorted(quarantined)


def test_a_run_that_wakes_after_another_one_changes_nothing(server: RunningServer) -> None:
    together = Together(server)
    run(together)
    together.change_inputs()
    run_id = together.ask("daily")
    with asleep(server.url, "computed") as fate:
        bury(server.url, fate)
        finish(server.url, lambda: together.have_ended(run_id))
        together.add_trips(201, 4)
        run(together)
        after = [together.positions(name) for name in NAMES]
    assert [together.positions(name) for name in NAMES] == after
    together.check_rows()


def test_a_lost_answer_costs_nothing_but_time(server: RunningServer) -> None:
    together = Together(server)
    run(together)
    together.change_inputs()
    lost = list[str]()

    def loses(method: str, path: str) -> bool:
        is_first = method == "POST" and path.endswith("/publish") and not lost
        if is_first:
            lost.append(path)
        return is_first

    run_id = together.ask("daily")
    with lossy_proxy(server.url, loses) as proxy:
        finish(proxy.url, lambda: together.have_ended(run_id))
    assert len(lost) == 1
    assert together.get_run(run_id).error is None
    assert [len(together.positions(name)) for name in NAMES] == [2, 2, 2]
    together.check_rows()


def test_commits_of_others_in_between_do_not_end_a_run(server: RunningServer) -> None:
    """Changes of a keyed table are added to; a changed plain table is read again."""
    together = Together(server)
    run(together)
    for table in ("driver", "trips"):
        together.add_trips(300 if table == "driver" else 400, 2)
        run_id = together.ask("daily")
        with asleep(server.url, "computed"):
            if table == "driver":
                rows = server.spark.table(f"lake.{together.table('driver')}").limit(1)
                firn.spark.upsert(rows, f"lake.{together.table('driver')}")
            else:
                server.spark.sql(f"INSERT INTO lake.{together.table('trips')} VALUES (9000, 1, 2.5)")
        ended = together.get_run(run_id)
        assert (ended.status, ended.attempt) == ("succeeded", 1), ended.error
    assert [len(together.positions(name)) for name in NAMES] == [3, 3, 3]


def test_a_failed_validator_of_one_table_changes_no_table(server: RunningServer) -> None:
    few = Validator(name="few", kind=ValidatorKind.EXPECT, condition="id < 100")
    together = Together(server, few)
    run(together)
    before = [together.load_metadata(name) for name in NAMES]
    positions = together.writer_positions()
    together.change_inputs()
    run_id = together.ask("daily")
    finish(server.url, lambda: together.have_ended(run_id))
    assert together.get_run(run_id).status == "failed"
    assert [together.load_metadata(name) for name in NAMES] == before
    assert together.writer_positions() == positions


@contextmanager
def reader(together: Together) -> Iterator[list[tuple[str | None, ...]]]:
    """Polls the heads of all tables. What it notes is one state: the first table was the same before and after."""
    seen, is_over = list[tuple[str | None, ...]](), threading.Event()

    def poll() -> None:
        while not is_over.is_set():
            heads = tuple(together.head_position(name) for name in NAMES)
            if together.head_position(NAMES[0]) == heads[0]:
                seen.append(heads)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()


def test_readers_never_see_a_mixed_state(server: RunningServer) -> None:
    together = Together(server)
    states = {checkpoints(run(together))}
    with reader(together) as seen:
        for number in range(PUBLISHES):
            together.add_trips(2_000 + 10 * number, 10)
            states.add(checkpoints(run(together)))
    assert set(seen) <= states
    assert len(states) == PUBLISHES + 1
    assert len(set(seen)) > PUBLISHES // 2
    together.check_rows()


def test_a_held_run_is_seen_when_somebody_publishes_it(server: RunningServer) -> None:
    """Its optimizer dies before the report: the next attempt finds what the server has. Dropped rows wait, too."""
    known = Validator(name="known", kind=ValidatorKind.EXPECT, severity=Severity.DROP, condition="id < 101")
    together, command = Together(server, known, audit=AuditMode.HOLD), Command(server.url)
    name = f"p_{together.number}"
    first = run(together)
    assert (first.result["held"], first.result["snapshot_id"]) == (True, None)
    assert [together.positions(table) for table in NAMES] == [[], [], []]
    assert "held" in command("pipeline", "list").out
    new = command("pipeline", "show", name, together.table("daily"), "--held", "--json").json
    assert (new["job_id"], new["written"], {row["before"] is None for row in new["rows"]}) == (
        *(first.job_id, first.result["written"]),
        {True},
    )
    published = command("pipeline", "publish", name, "--json")
    assert (published.code, published.json["tables"]) == (0, [together.table(table) for table in NAMES])
    together.check_rows()
    together.change_inputs()
    before, run_id, fate = [together.load_metadata(table) for table in NAMES], together.ask("daily"), Fate("committed")
    work_until(server.url, fate)
    bury(server.url, fate)
    finish(server.url, lambda: together.have_ended(run_id))
    held = together.get_run(run_id)
    assert (held.error, held.attempt, held.result["held"]) == (None, 2, True)
    for table in NAMES:  # keyed and plain ones; the attempt that has sampled them is dead
        shown = together.pipeline.held(together.table(table))
        assert (shown.written or 0) + (shown.deleted or 0) == len(shown.rows) > 0
        assert all(row.before != row.after for row in shown.rows)
    assert [together.load_metadata(table) for table in NAMES] == before
    refused = command("pipeline", "run", name, together.table("driver"))
    assert f"firn pipeline publish {name}" in refused.err
    together.pipeline.discard(together.table("trips"))
    assert [together.load_metadata(table) for table in NAMES] == before
    again = run(together)
    assert together.quarantined() == []
    together.pipeline.publish(together.table("trips"))
    together.check_rows(dropped="id >= 101")
    assert together.quarantined() == [(again.job_id, "known", number) for number in (101, 102)]
    assert (again.result["written"] > 0, [len(together.positions(table)) for table in NAMES]) == (True, [2, 2, 2])
