"""Durations as people type and read them: `7d`, `36 h`."""

from __future__ import annotations

import re

from firn.errors import Invalid

_UNITS = {"s": 1_000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"\s*(\d+)\s*([a-z]+)\s*", re.IGNORECASE)


def duration_ms(text: str | None) -> int | None:
    """`7d`, `36 h`, `90min` in milliseconds."""
    if text is None:
        return None
    match = _DURATION.fullmatch(text)
    if match is None or match[2].lower() not in _UNITS or int(match[1]) == 0:
        raise Invalid(f"{text!r} is not a duration", hint="write a number and one of s, min, h, d, such as 7d")
    return int(match[1]) * _UNITS[match[2].lower()]


def duration_text(milliseconds: int | None) -> str | None:
    """In the largest unit that leaves a whole number."""
    if milliseconds is None:
        return None
    for unit in ("d", "h", "min", "s"):
        if milliseconds % _UNITS[unit] == 0:
            return f"{milliseconds // _UNITS[unit]} {unit}"
    return f"{milliseconds} ms"
