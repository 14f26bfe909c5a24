"""The time before which reads hide rows: never later than for a ttl job, and in steps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from catalog.policy.policy import Policy, merge_layers
from catalog.retention.at_read import compute_read_cutoff, describe_hidden
from tests.catalog.retention.test_ttl import NOW, a_table, wall


def policy(**more: str) -> Policy:
    own = {"field": "at", "max-age": "10 d", "at-read": "true", **{key.replace("_", "-"): more[key] for key in more}}
    zone = {"firn.optimize.time-zone": own.pop("zone", "UTC")}
    return merge_layers([("table", {f"firn.ttl.{key}": text for key, text in own.items()} | zone)])


def cut(kind: str, *transforms: str, **more: str) -> datetime:
    cutoff = compute_read_cutoff(a_table(kind, *transforms), policy(**more), NOW)
    assert cutoff is not None
    return cutoff.at


@pytest.mark.parametrize(
    ("age", "at"),
    [
        ("24 d", datetime(2026, 10, 28, tzinfo=UTC)),
        ("23 d", datetime(2026, 10, 29, 12, tzinfo=UTC)),
        ("1 d", datetime(2026, 11, 20, 12, tzinfo=UTC)),
        ("23 h", datetime(2026, 11, 20, 13, 34, tzinfo=UTC)),
        ("90 s", datetime(2026, 11, 21, 12, 33, tzinfo=UTC)),
    ],
)
def test_the_cutoff_moves_by_minutes_hours_or_days_as_the_age_is(age: str, at: datetime) -> None:
    assert cut("timestamptz", max_age=age) == at
    assert timedelta() <= (NOW - cut("timestamptz", max_age=age)) - parse(age) < timedelta(days=1)


def parse(age: str) -> timedelta:
    number, unit = age.split()
    return timedelta(**{{"d": "days", "h": "hours", "s": "seconds"}[unit]: int(number)})


def test_dates_move_by_days_and_times_without_a_zone_follow_the_owners_clock() -> None:
    assert cut("date", max_age="2 h") == wall(2026, 11, 21)
    assert cut("timestamp", zone="Asia/Kolkata") == wall(2026, 11, 11, 18, 0, 0, 0)


def test_partitions_do_not_move_it() -> None:
    assert cut("timestamptz", "month") == cut("timestamptz")


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("date", {"at_read": "false"}),
        ("date", {"field": "other"}),
        ("string", {}),
        ("date", {"max_age": ""}),
        ("timestamp", {"max_age": "900000 d"}),
    ],
)
def test_nothing_is_hidden_without_a_policy_that_fits(kind: Any, more: dict[str, str]) -> None:
    assert compute_read_cutoff(a_table(kind), policy(**more), NOW) is None


def test_the_hidden_rows_as_text() -> None:
    cutoffs = [compute_read_cutoff(a_table(kind), policy(), NOW) for kind in ("date", "timestamptz")]
    assert [cutoff and describe_hidden(cutoff) for cutoff in cutoffs] == [
        "at < 2026-11-11",
        "at < 2026-11-11T12:00:00+00:00",
    ]
