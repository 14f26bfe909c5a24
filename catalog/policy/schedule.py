"""Moments and spans of time that come again: `0 3 * * 0`, and `0 22 * * * for 8 h`.

Cron expressions have five fields (minute, hour, day, month, weekday) and are read as Debian's cron reads them, by
`cronsim`. Times are those of the wall clock of a time zone, so a window of the night stays one when clocks change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from catalog.errors import Invalid
from catalog.policy.units import parse_duration

LONGEST_WINDOW = timedelta(days=31)
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Moments, as cron writes them."""

    cron: str

    def last(self, now: datetime, zone: ZoneInfo) -> datetime | None:
        """The newest moment that is not after `now`, in UTC; None when there is none in living memory."""
        # Going back, cronsim leaves out the minute it starts from.
        return self._first(now.astimezone(zone) + _MINUTE, reverse=True, zone=zone)

    def following(self, now: datetime, zone: ZoneInfo) -> datetime | None:
        """The first moment after `now`, in UTC."""
        return self._first(now.astimezone(zone), reverse=False, zone=zone)

    def _first(self, start: datetime, *, reverse: bool, zone: ZoneInfo) -> datetime | None:
        minute = start.replace(second=0, microsecond=0, tzinfo=zone)
        # To Python both passes of an hour that the clocks go through twice are equal: the fold tells them apart.
        return _moment(self.cron, minute, minute.fold, reverse, zone)


@lru_cache(maxsize=10_000)
def _moment(cron: str, start: datetime, _fold: int, reverse: bool, _zone: ZoneInfo) -> datetime | None:  # noqa: FBT001 (a cache's key)
    """Thousands of tables have the same schedule, and are looked at in the same minute."""
    found = next(CronSim(cron, start, reverse=reverse), None)
    return None if found is None else found.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Window:
    """Spans that begin at moments of a schedule."""

    begins: Schedule
    lasts: timedelta

    def end_at(self, now: datetime, zone: ZoneInfo) -> datetime | None:
        """When the span that holds `now` ends; None when none does."""
        began = self.begins.last(now, zone)
        return began + self.lasts if began is not None and now < began + self.lasts else None


def is_open(windows: Sequence[Window], now: datetime, zone: ZoneInfo) -> bool:
    """Whether one of them holds this moment."""
    return any(window.end_at(now, zone) is not None for window in windows)


def find_opening(windows: Sequence[Window], now: datetime, zone: ZoneInfo) -> datetime | None:
    """When the next of them begins."""
    return min((at for one in windows if (at := one.begins.following(now, zone)) is not None), default=None)


def find_closing(windows: Sequence[Window], now: datetime, zone: ZoneInfo) -> datetime | None:
    """When none of those that hold this moment does any more."""
    return max((at for one in windows if (at := one.end_at(now, zone)) is not None), default=None)


def parse_schedule(text: str) -> Schedule:
    """A cron expression of five fields that comes true some day; else Invalid."""
    cron = " ".join(text.split())
    hint = "write minute, hour, day, month and weekday, such as 0 3 * * 0 for Sundays at three"
    if len(cron.split()) != 5:
        raise Invalid(f"{text!r} is no schedule: it has {len(cron.split())} fields, not five", hint=hint)
    try:
        never = next(CronSim(cron, datetime(2024, 1, 1, tzinfo=UTC)), None) is None
    except CronSimError as error:
        raise Invalid(f"{text!r} is no schedule: {error}", hint=hint) from error
    if never:
        raise Invalid(f"{text!r} never comes", hint=hint)
    return Schedule(cron)


def parse_windows(text: str) -> tuple[Window, ...]:
    """`0 22 * * * for 8 h`, several with a semicolon between; else Invalid."""
    return tuple(_window(part) for part in text.split(";"))


def _window(text: str) -> Window:
    cron, sign, span = text.rpartition(" for ")
    if not sign:
        raise Invalid(f"{text!r} is no window", hint="write when it begins and how long it lasts: 0 22 * * * for 8 h")
    lasts = parse_duration(span)
    if not _MINUTE <= lasts <= LONGEST_WINDOW:
        raise Invalid(f"a window lasts from one minute to {LONGEST_WINDOW.days} days, not {span.strip()}")
    return Window(parse_schedule(cron), lasts)


def parse_time_zone(text: str) -> ZoneInfo:
    """A zone of the IANA database, such as `Europe/Berlin`; else Invalid."""
    try:
        return ZoneInfo(text.strip())
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Invalid(f"{text!r} is no time zone", hint="write one such as UTC or Europe/Berlin") from error


def parse_tag_name(text: str) -> str:
    """A pattern that names two moments differently, and neither with digits alone; else Invalid."""
    pattern = text.strip()
    one, other = (datetime(year, month, 1, tzinfo=UTC) for year, month in ((2026, 1), (2027, 2)))
    names = one.strftime(pattern), other.strftime(pattern)
    hint = "write text with parts of the time as strftime does, such as auto-%Y-%m-%d"
    if names[0] == names[1]:
        raise Invalid(f"{text!r} names every tag alike", hint=hint)
    if any(name.isdigit() or not name.isprintable() or not 0 < len(name) <= 255 for name in names):
        raise Invalid(f"{text!r} makes no name for a tag: engines take a number for a snapshot's id", hint=hint)
    return pattern
