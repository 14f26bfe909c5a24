"""When runs start: schedules, commits, targets of freshness, chains and failures."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from catalog.pipelines.trigger import TableFacts, plan_runs, predict_duration
from firn.protocol.pipelines import BY_HAND, Trigger, TriggerKind

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MOST = 3
FRESH = Trigger(kind=TriggerKind.FRESH, fresh_within_seconds=900)
ON_COMMIT = Trigger(kind=TriggerKind.COMMIT)
HOURLY = Trigger(kind=TriggerKind.CRON, cron="0 * * * *")
DEFAULTS: dict[str, Any] = {"durations": [MINUTE] * 20, "created_at": NOW - 1_000 * MINUTE}


def table(trigger: Trigger, *inputs: str, **state: Any) -> TableFacts:
    return TableFacts(trigger=trigger, inputs=inputs or ("raw",), **{**DEFAULTS, **state})


def starts(**tables: TableFacts) -> dict[str, float]:
    """Minutes from now until each table starts."""
    return {name: (run.at - NOW) / MINUTE for name, run in plan_runs(tables, NOW, max_failures=MOST).items()}


def ago(minutes: float) -> datetime:
    return NOW - minutes * MINUTE


def test_nothing_starts_without_a_trigger_or_without_changes() -> None:
    assert starts(a=table(BY_HAND, pending={"raw": ago(100)})) == {}
    assert starts(a=table(FRESH), b=table(ON_COMMIT), c=table(HOURLY, last_started=ago(200))) == {}


def test_a_table_starts_as_late_as_its_target_allows() -> None:
    assert starts(a=table(FRESH, pending={"raw": ago(5)})) == {"a": pytest.approx(15 - 0.75 - 5 - 1.15)}
    assert starts(a=table(FRESH, pending={"raw": ago(5), "dim": ago(14)})) == {"a": pytest.approx(1 - 0.75 - 1.15)}


def test_a_table_that_is_not_built_starts_at_once_except_by_schedule() -> None:
    built: dict[str, Any] = {"is_built": False, "created_at": ago(1)}
    assert starts(a=table(FRESH, **built), b=table(ON_COMMIT, **built), c=table(HOURLY, **built)) == {
        "a": 0,
        "b": 0,
        "c": 0,
    }
    assert starts(c=table(HOURLY, is_built=False, created_at=NOW)) == {"c": 60}


def test_a_commit_to_one_input_or_to_all_starts_a_run() -> None:
    both = Trigger(kind=TriggerKind.COMMIT, all_inputs=True)
    pending: dict[str, Any] = {"pending": {"raw": ago(1)}}
    assert starts(a=table(ON_COMMIT, "raw", "dim", **pending)) == {"a": 0}
    assert starts(a=table(both, "raw", "dim", **pending)) == {}
    assert starts(a=table(both, "raw", "dim", pending={"raw": ago(1), "dim": ago(2)})) == {"a": 0}


def test_a_schedule_starts_one_run_for_all_times_that_were_missed() -> None:
    pending: dict[str, Any] = {"pending": {"raw": ago(500)}}
    assert starts(a=table(HOURLY, last_started=ago(300), **pending)) == {"a": 0}
    assert starts(a=table(HOURLY, last_started=NOW, **pending)) == {"a": 60}


def test_a_chain_shares_its_slack() -> None:
    """The first table starts early enough for both runs, and the second one when the first has committed."""
    first = table(BY_HAND, "raw", pending={"raw": ago(5)})
    second = table(FRESH, "first")
    assert starts(first=first, second=second) == {"first": pytest.approx(15 - 0.75 - 5 - 2 * 1.15)}
    committed = replace(second, pending={"first": ago(5)})
    assert starts(first=replace(first, pending={}), second=committed) == {"second": pytest.approx(15 - 0.75 - 5 - 1.15)}


def test_an_input_of_two_readers_starts_for_the_more_urgent_one() -> None:
    first = table(BY_HAND, "raw", pending={"raw": ago(0)})
    slow = Trigger(kind=TriggerKind.FRESH, fresh_within_seconds=3_600)
    readers = {"hurried": table(FRESH, "first"), "patient": table(slow, "first")}
    assert starts(first=first, **readers) == {"first": pytest.approx(15 - 0.75 - 2 * 1.15)}


def test_a_table_with_a_run_starts_no_other_one() -> None:
    assert starts(a=table(ON_COMMIT, pending={"raw": ago(1)}, is_active=True)) == {}


def test_failures_delay_the_next_run_and_then_end_the_runs() -> None:
    failed: dict[str, Any] = {"pending": {"raw": ago(1)}, "last_failed": NOW}
    assert starts(a=table(ON_COMMIT, failures=1, **failed)) == {"a": 0.5}
    assert starts(a=table(ON_COMMIT, failures=2, **failed)) == {"a": 1}
    assert starts(a=table(ON_COMMIT, failures=3, **failed)) == {}
    (run,) = plan_runs({"a": table(ON_COMMIT, failures=90, **failed)}, NOW, max_failures=99).values()
    assert run.at == NOW + 60 * MINUTE


@pytest.mark.parametrize("ahead", [5, 60, 100_000])
def test_times_of_a_clock_that_was_ahead_delay_no_run(ahead: float) -> None:
    """Somebody has set the clock of the database back since a commit, a run or a failure."""
    assert starts(a=table(FRESH, pending={"raw": ago(-ahead)})) == {"a": 0}
    assert starts(a=table(HOURLY, last_started=ago(-ahead), pending={"raw": ago(5)}))["a"] <= 0
    failed = table(ON_COMMIT, pending={"raw": ago(5)}, failures=2, last_failed=ago(-ahead))
    assert starts(a=failed) == {"a": 0}


def test_clocks_that_differ_by_seconds_change_nothing() -> None:
    assert starts(a=table(FRESH, pending={"raw": ago(-0.5)})) == {"a": pytest.approx(15.5 - 0.75 - 1.15)}


def test_few_runs_predict_with_more_caution() -> None:
    assert predict_duration(table(FRESH, durations=[MINUTE, 2 * MINUTE])) == 4 * MINUTE
    assert predict_duration(table(FRESH, durations=[MINUTE] * 49 + [3 * MINUTE])) == 1.15 * 3 * MINUTE
    assert predict_duration(table(FRESH, durations=[])) == 2 * MINUTE


def simulate(trigger: Trigger, seed: int) -> tuple[float, timedelta]:
    """CPU seconds of a day's runs, and the greatest age of a commit that no reader saw.

    A commit a minute by day, one in ten minutes by night. A run takes 20 s and 2 ms for each changed row.
    """
    chance = random.Random(seed)
    commits: list[tuple[datetime, int]] = []
    at = NOW
    while at < NOW + timedelta(days=1):
        quiet = 0.1 if at < NOW + timedelta(hours=6) else 1.0
        at += timedelta(seconds=chance.expovariate(quiet / 60))
        commits.append((at, int(chance.expovariate(1 / 300)) + 1))
    now, cost, worst = NOW, 0.0, timedelta(0)
    state = table(trigger, durations=())
    while commits:
        now = max(now, commits[0][0])
        while True:
            state = replace(state, pending={"raw": commits[0][0]})
            run = plan_runs({"a": state}, now, max_failures=MOST)["a"]
            if run.at <= now:
                break
            now = run.at
        rows = sum(rows for time, rows in commits if time <= now)
        seconds = (20 + 0.002 * rows) * chance.lognormvariate(0, 0.15)
        commits = [commit for commit in commits if commit[0] > now]
        now += timedelta(seconds=seconds)
        cost, worst = cost + seconds, max(worst, now - state.pending["raw"])
        state = replace(state, durations=[*state.durations, timedelta(seconds=seconds)][-100:])
    return cost, worst


@pytest.mark.parametrize("minutes", [5, 15, 60])
def test_the_latest_start_meets_the_target_for_less_than_a_third_of_a_run_for_each_commit(minutes: int) -> None:
    each, _ = simulate(ON_COMMIT, seed=1)
    cost, worst = simulate(Trigger(kind=TriggerKind.FRESH, fresh_within_seconds=60 * minutes), seed=1)
    assert worst <= minutes * MINUTE
    assert cost <= 0.3 * each


def test_a_chain_that_nobody_watches_costs_nothing() -> None:
    tables: Mapping[str, TableFacts] = {
        f"t{number}": table(BY_HAND, f"t{number - 1}", pending={"raw": ago(9)}) for number in range(1_000)
    }
    assert plan_runs(tables, NOW, max_failures=MOST) == {}
