"""Windows: jobs may start inside the policy's window and outside of its closed times."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from catalog.policy.policy import Policy
from catalog.policy.schedule import Window, find_closing, find_opening, is_open

_MAX_STEPS = 100
"""The number of windows and pauses to search. If none leaves a gap by then, none ever will."""


def open_now(policy: Policy, now: datetime) -> bool:
    """Whether jobs by trigger or schedule may start at this moment."""
    window, closed, zone = _read_windows(policy)
    return (window is None or is_open(window, now, zone)) and not (closed and is_open(closed, now, zone))


def open_from(policy: Policy, at: datetime) -> datetime | None:
    """The first moment not before `at` at which jobs may start; None if window and pauses leave none."""
    window, closed, zone = _read_windows(policy)
    for _ in range(_MAX_STEPS):
        if window is not None and not is_open(window, at, zone):
            opens = find_opening(window, at, zone)
            if opens is None:
                return None
            at = opens
        ends = find_closing(closed, at, zone) if closed else None
        if ends is None:
            return at
        at = ends
    return None


def _read_windows(policy: Policy) -> tuple[tuple[Window, ...] | None, tuple[Window, ...] | None, ZoneInfo]:
    return policy["firn.optimize.window"], policy["firn.optimize.not-during"], policy["firn.optimize.time-zone"]
