"""Whether a run is full, and the reason that its result gives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from firn.pipelines import Plan, incremental
from firn.protocol.answers.writers import WriterOut
from firn.protocol.pipeline_pins import Checkpoint, TargetPins
from firn.protocol.pipelines import Refresh
from optimizer.errors import Refused
from optimizer.pipelines.mode import Mode, choose_mode, weigh
from optimizer.pipelines.tuning import choose_settings

SCHEMA = {
    "raw.trip": {"driver": "int", "day": "date", "fare": "decimal(10,2)", "note": "string"},
    "raw.driver": {"driver": "int", "city": "int"},
}
BY_DAY = "SELECT t.day, count(*) AS n FROM raw.trip t GROUP BY t.day"
BY_CITY = """SELECT d.city, t.day, count(*) AS n FROM raw.trip t JOIN raw.driver d ON t.driver = d.driver
GROUP BY d.city, t.day"""
MIB = 2**20


@dataclass(frozen=True)
class FakeInput:
    """An input of which a test says what counts for the mode."""

    obstacle: str | None = None

    def find_obstacle(self, columns: tuple[str, ...]) -> str | None:
        return self.obstacle if "fare" not in columns else None


def build_pins(reason: str | None = None, *, is_fallback: bool = False) -> TargetPins:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    checkpoint = Checkpoint(id="c", fingerprint="0" * 64, pinned_at=now, pins=[])
    writer = WriterOut(
        name="w",
        epoch=1,
        position=None,
        registered_at=now,
        registered_by=None,
        committed_at=None,
        snapshot_id=None,
        fenced_at=None,
    )
    return TargetPins(
        table="mart.t",
        writer=writer,
        since=checkpoint if reason is None else None,
        full_reason=reason,
        is_fallback=is_fallback,
        until=checkpoint,
    )


def choose(
    plan: Plan,
    refresh: Refresh = Refresh.INCREMENTAL,
    pins: TargetPins | None = None,
    *,
    is_requested: bool = False,
    obstacle: str | None = None,
) -> Mode:
    inputs: Any = {"raw.trip": FakeInput(obstacle=obstacle)}
    return choose_mode(plan, refresh, pins or build_pins(), inputs, is_requested=is_requested)


def weigh_trips(query: str, changed: str, target_bytes: int, **measured: tuple[int, int]) -> Mode:
    named = {f"raw.{name}": sizes for name, sizes in measured.items()}
    return weigh(incremental(query, SCHEMA), named, [f"raw.{changed}"], target_bytes)


def test_a_query_that_can_is_incremental() -> None:
    assert choose(incremental(BY_DAY, SCHEMA)) == Mode(is_full=False)


def test_a_user_and_a_missing_checkpoint_make_it_full_under_every_policy() -> None:
    plan = incremental(BY_DAY, SCHEMA)
    for refresh in Refresh:
        assert choose(plan, refresh, is_requested=True) == Mode(is_full=True, reason="asked for")
        first = choose(plan, refresh, build_pins("the table has no checkpoint yet"))
        assert first == Mode(is_full=True, reason="the table has no checkpoint yet")
    assert choose(plan, Refresh.FULL) == Mode(is_full=True, reason="refresh: full")


def test_strict_does_not_fall_back_if_a_checkpoint_is_lost() -> None:
    plan, pins = incremental(BY_DAY, SCHEMA), build_pins("snapshot 7 of raw.trip has expired", is_fallback=True)
    assert choose(plan, Refresh.INCREMENTAL, pins).reason == "snapshot 7 of raw.trip has expired"
    with pytest.raises(Refused, match=r"snapshot 7 of raw.trip has expired\. Run it with --full"):
        choose(plan, Refresh.STRICT, pins)


@pytest.mark.parametrize(
    ("query", "obstacle", "reason"),
    [
        ("SELECT count(*) AS n FROM raw.trip", None, "an aggregate without GROUP BY"),
        (BY_DAY, "the column day of raw.trip has changed since the checkpoint", "the column day"),
    ],
)
def test_a_run_that_cannot_be_incremental_says_why_and_strict_refuses_it(
    query: str,
    obstacle: str | None,
    reason: str,
) -> None:
    plan = incremental(query, SCHEMA)
    mode = choose(plan, obstacle=obstacle)
    assert mode.is_full
    assert reason in (mode.reason or "")
    with pytest.raises(Refused, match=reason):
        choose(plan, Refresh.STRICT, obstacle=obstacle)


def test_small_tables_are_cheaper_in_full() -> None:
    mode = weigh_trips(BY_DAY, "trip", 2 * MIB, trip=(1000, 5 * MIB))
    reason = "7 MiB of inputs and target are cheaper to compute in full"
    assert mode == Mode(is_full=True, reason=reason, full_bytes=7 * MIB)


def test_few_changes_of_a_large_table_are_cheaper_incrementally() -> None:
    mode = weigh_trips(BY_DAY, "trip", 50 * MIB, trip=(10 * MIB, 1000 * MIB))
    reason = "predicted to read 20 MiB incrementally, 1,050 MiB in full"
    assert mode == Mode(is_full=False, reason=reason, incremental_bytes=20 * MIB, full_bytes=1050 * MIB)


def test_many_changes_are_cheaper_in_full() -> None:
    assert weigh_trips(BY_DAY, "trip", 50 * MIB, trip=(900 * MIB, 1000 * MIB)).is_full


def test_a_join_at_both_states_counts_twice() -> None:
    """The changed drivers are joined with all trips, old and new."""
    inputs = {"trip": (0, 1000 * MIB), "driver": (MIB, 100 * MIB)}
    mode = weigh_trips(BY_CITY, "driver", 500 * MIB, **inputs)
    assert (mode.is_full, mode.reason) == (True, "predicted to read 2,012 MiB incrementally, 1,600 MiB in full")


def test_few_bytes_take_few_jobs_and_no_compiled_code() -> None:
    assert choose_settings(300 * MIB) == {}
    assert choose_settings(100 * MIB) == {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "4"}
    assert "spark.sql.codegen.factoryMode" not in choose_settings(20 * MIB)
    assert choose_settings(MIB) == {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
