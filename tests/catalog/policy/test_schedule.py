"""Schedules and windows: which moments they mean, by whose clock, and what is no schedule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from catalog.errors import Invalid
from catalog.policy.schedule import (
    Schedule,
    find_closing,
    find_opening,
    is_open,
    parse_schedule,
    parse_time_zone,
    parse_windows,
)

BERLIN = ZoneInfo("Europe/Berlin")
UTC_ZONE = ZoneInfo("UTC")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "now", "last", "following"),
    [
        ("0 3 * * *", "2026-11-22T12:00", "2026-11-22T03:00", "2026-11-23T03:00"),
        ("0 3 * * *", "2026-11-22T03:00", "2026-11-22T03:00", "2026-11-23T03:00"),
        ("0 3 * * *", "2026-11-22T03:00:30", "2026-11-22T03:00", "2026-11-23T03:00"),
        ("0 3 * * *", "2026-11-22T02:59:59", "2026-11-21T03:00", "2026-11-22T03:00"),
        ("*/15 8-10 * * 1-5", "2026-11-22T12:00", "2026-11-20T10:45", "2026-11-23T08:00"),
        ("0 0 29 2 *", "2026-11-22T12:00", "2024-02-29T00:00", "2028-02-29T00:00"),
    ],
)
def test_a_schedule_has_a_last_moment_and_a_following_one(cron: str, now: str, last: str, following: str) -> None:
    schedule = Schedule(cron)
    assert schedule.last(at(now), UTC_ZONE) == at(last)
    assert schedule.following(at(now), UTC_ZONE) == at(following)


def test_a_night_stays_a_night_when_clocks_change() -> None:
    night = Schedule("0 22 * * *")
    assert night.following(at("2026-10-24T12:00"), BERLIN) == at("2026-10-24T20:00")
    assert night.following(at("2026-10-25T12:00"), BERLIN) == at("2026-10-25T21:00")


def test_an_hour_that_comes_twice_is_two_hours() -> None:
    """To Python both half past two are equal: an answer kept for the first would lie behind the second."""
    often = parse_schedule("*/20 * * * *")
    assert often.following(at("2026-10-25T00:30"), BERLIN) == at("2026-10-25T00:40")
    assert often.following(at("2026-10-25T01:30"), BERLIN) == at("2026-10-25T01:40")


def test_a_window_is_open_from_its_moment_until_its_span_has_passed() -> None:
    (window,) = parse_windows("0 22 * * * for 8 h")
    assert window.lasts == timedelta(hours=8)
    for now, open_ in [("T21:59:59", False), ("T22:00", True), ("T23:30", True)]:
        assert is_open([window], at(f"2026-11-22{now}"), UTC_ZONE) is open_
    assert is_open([window], at("2026-11-23T05:59:59"), UTC_ZONE)
    assert not is_open([window], at("2026-11-23T06:00"), UTC_ZONE)


def test_of_several_windows_the_next_opens_and_the_last_closes() -> None:
    windows = parse_windows("0 22 * * 1-5 for 8 h; 0 0 * * 6 for 48 h")
    friday_night, monday_noon = at("2026-11-20T23:00"), at("2026-11-23T12:00")
    assert find_closing(windows, friday_night, UTC_ZONE) == at("2026-11-21T06:00")
    assert is_open(windows, at("2026-11-22T23:00"), UTC_ZONE)
    assert find_opening(windows, monday_noon, UTC_ZONE) == at("2026-11-23T22:00")
    assert find_closing(windows, monday_noon, UTC_ZONE) is None


@pytest.mark.parametrize("text", ["", "daily", "0 3 * *", "61 3 * * *", "0 3 * * * *", "0 0 30 2 *", "0 3 * * mon-"])
def test_what_cron_does_not_know_is_no_schedule(text: str) -> None:
    with pytest.raises(Invalid):
        parse_schedule(text)


@pytest.mark.parametrize(
    "text", ["0 22 * * *", "0 22 * * * for", "0 22 * * * for ever", "x for 8 h", "0 0 * * * for 40 d"]
)
def test_a_window_needs_a_beginning_and_a_span(text: str) -> None:
    with pytest.raises(Invalid):
        parse_windows(text)


@pytest.mark.parametrize("text", ["", "Mars/Olympus", "../etc/passwd", "UTC+25"])
def test_a_time_zone_is_one_that_there_is(text: str) -> None:
    with pytest.raises(Invalid):
        parse_time_zone(text)
