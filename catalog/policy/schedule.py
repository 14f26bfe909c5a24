"""Recurring times and windows: `0 3 * * 0`, and `0 22 * * * for 8 h`.

Cron expressions have five fields (minute, hour, day, month, weekday). `cronsim` reads them like Debian's cron. Times
are local times of a time zone, so a window at night stays at night when clocks change.
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
    """Recurring times in cron's syntax."""

    cron: str

    def last(self, now: datetime, zone: ZoneInfo) -> datetime | None:
        """The newest scheduled time not after `now`, in UTC; None if there is none within cronsim's search range."""
        # Backwards, cronsim omits the minute it starts from.
        return self._first(now.astimezone(zone) + _MINUTE, reverse=True, zone=zone)

    def following(self, now: datetime, zone: ZoneInfo) -> datetime | None:
        """The first scheduled time after `now`, in UTC."""
        return self._first(now.astimezone(zone), reverse=False, zone=zone)

    def _first(self, start: datetime, *, reverse: bool, zone: ZoneInfo) -> datetime | None:
        minute = start.replace(second=0, microsecond=0, tzinfo=zone)
        # To Python both passes of a repeated hour are equal; the fold distinguishes them.
        return _find_occurrence(self.cron, minute, minute.fold, reverse, zone)


@lru_cache(maxsize=10_000)
def _find_occurrence(cron: str, start: datetime, _fold: int, reverse: bool, _zone: ZoneInfo) -> datetime | None:  # noqa: FBT001 (a cache's key)
    """Cached, because thousands of tables share a schedule and are planned in the same minute."""
    occurrence = next(CronSim(cron, start, reverse=reverse), None)
    return None if occurrence is None else occurrence.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Window:
    """Time spans that start at the times of a schedule."""

    begins: Schedule
    lasts: timedelta

    def end_at(self, now: datetime, zone: ZoneInfo) -> datetime | None:
        """The end of the span that contains `now`; None if none does."""
        began = self.begins.last(now, zone)
        return began + self.lasts if began is not None and now < began + self.lasts else None


def is_open(windows: Sequence[Window], now: datetime, zone: ZoneInfo) -> bool:
    """Whether one of the windows contains this moment."""
    return any(window.end_at(now, zone) is not None for window in windows)


def find_opening(windows: Sequence[Window], now: datetime, zone: ZoneInfo) -> datetime | None:
    """The start of the next window."""
    return min((at for window in windows if (at := window.begins.following(now, zone)) is not None), default=None)


def find_closing(windows: Sequence[Window], now: datetime, zone: ZoneInfo) -> datetime | None:
    """The end of the last window that contains this moment."""
    return max((at for window in windows if (at := window.end_at(now, zone)) is not None), default=None)


def parse_schedule(text: str) -> Schedule:
    """The schedule of a cron expression with five fields; Invalid if it does not parse or never occurs."""
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
    """The windows of `0 22 * * * for 8 h`, separated by semicolons; Invalid for any other text."""
    return tuple(_parse_window(part) for part in text.split(";"))


def _parse_window(text: str) -> Window:
    cron, sign, span = text.rpartition(" for ")
    if not sign:
        raise Invalid(f"{text!r} is no window", hint="write when it begins and how long it lasts: 0 22 * * * for 8 h")
    lasts = parse_duration(span)
    if not _MINUTE <= lasts <= LONGEST_WINDOW:
        raise Invalid(f"a window lasts from one minute to {LONGEST_WINDOW.days} days, not {span.strip()}")
    return Window(parse_schedule(cron), lasts)


def parse_time_zone(text: str) -> ZoneInfo:
    """A zone of the IANA database, such as `Europe/Berlin`; Invalid for any other text."""
    try:
        return ZoneInfo(text.strip())
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Invalid(f"{text!r} is no time zone", hint="write one such as UTC or Europe/Berlin") from error


def parse_tag_name(text: str) -> str:
    """A strftime pattern; Invalid if it gives different times one name, or a name of digits."""
    pattern = text.strip()
    first, second = (datetime(year, month, 1, tzinfo=UTC) for year, month in ((2026, 1), (2027, 2)))
    names = first.strftime(pattern), second.strftime(pattern)
    hint = "write text with parts of the time as strftime does, such as auto-%Y-%m-%d"
    if names[0] == names[1]:
        raise Invalid(f"{text!r} names every tag alike", hint=hint)
    if any(name.isdigit() or not name.isprintable() or not 0 < len(name) <= 255 for name in names):
        raise Invalid(f"{text!r} makes no name for a tag: engines take a number for a snapshot's id", hint=hint)
    return pattern
