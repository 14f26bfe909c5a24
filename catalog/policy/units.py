"""Quantities of policies: `10 min`, `128 MiB`, `0.3`. Parsers raise Invalid for any other text."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from catalog.errors import Invalid
from catalog.jobs.optimizer_group import parse_group_name

T = TypeVar("T")

_SECONDS = {"ms": 0.001, "s": 1, "sec": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}
_BYTES = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "kb": 10**3, "mb": 10**6, "gb": 10**9}
LONGEST = timedelta(days=36_500)
"""Subtracted from now, this still is a valid date."""
HIGHEST = 2**62
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_duration(text: str) -> timedelta:
    """`90 s`, `10 min`, `5 d`; Invalid without a unit."""
    number, unit = _parse_quantity(text)
    if unit.lower() not in _SECONDS:
        raise Invalid(f"{text!r} is not a duration", hint="write a number and one of ms, s, min, h, d, such as 10 min")
    seconds = number * _SECONDS[unit.lower()]
    if seconds > LONGEST.total_seconds():
        raise Invalid(f"{text!r} is longer than {LONGEST.days} days")
    return timedelta(seconds=seconds)


def parse_at_least(shortest: str) -> Callable[[str], timedelta]:
    """A parser of durations with a minimum."""

    def parse(text: str) -> timedelta:
        span = parse_duration(text)
        if span < parse_duration(shortest):
            raise Invalid(f"{text!r} is shorter than {shortest}")
        return span

    return parse


def parse_at_most(longest: str) -> Callable[[str], timedelta]:
    """A parser of durations with a maximum."""

    def parse(text: str) -> timedelta:
        span = parse_duration(text)
        if span > parse_duration(longest):
            raise Invalid(f"{text!r} is longer than {longest}")
        return span

    return parse


def parse_size(text: str) -> int:
    """`128 MiB`, `1.5 GB`, or plain bytes."""
    number, unit = _parse_quantity(text)
    if unit.lower() not in _BYTES:
        raise Invalid(
            f"{text!r} is not a size", hint="write a number of bytes, or one with KiB, MiB, GiB, such as 128 MiB"
        )
    size = number * _BYTES[unit.lower()]
    if size > HIGHEST:
        raise Invalid(f"{text!r} is more than {HIGHEST} bytes")
    return int(size)


def parse_count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.strip().isdecimal() or len(text.strip()) > 18 or int(text) < 1:
        raise Invalid(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def parse_flag(text: str) -> bool:
    """`true` or `false`."""
    if text.strip().lower() not in ("true", "false"):
        raise Invalid(f"{text!r} is neither true nor false")
    return text.strip().lower() == "true"


def parse_group(text: str) -> str:
    return parse_group_name(text)


def parse_one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise Invalid(f"{text!r} is not one of {', '.join(allowed)}")
        return text

    return parse


def _parse_quantity(text: str) -> tuple[float, str]:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise Invalid(f"{text!r} is not a number with a unit")
    return float(match[1]), match[2]


def parse_share(text: str) -> float:
    """A number from 0 to 1."""
    number, unit = _parse_quantity(text)
    if unit or number > 1:
        raise Invalid(f"{text!r} is not a share", hint="write a number from 0 to 1, such as 0.3")
    return number


def parse_columns(text: str) -> tuple[str, ...]:
    """Column names separated by commas; an empty text gives none."""
    names = tuple(part.strip() for part in text.split(",")) if text.strip() else ()
    if not all(names) or len(set(names)) < len(names):
        raise Invalid(f"{text!r} is no list of columns", hint="write each name once, with a comma between two")
    return names


def parse_text(text: str) -> str:
    """Any text. Its meaning is checked where the table is known."""
    return text.strip()


def parse_optional(parse: Callable[[str], T]) -> Callable[[str], T | None]:
    """A parser that gives None for an empty text."""
    return lambda text: parse(text) if text.strip() else None


def parse_unless_never(parse: Callable[[str], T]) -> Callable[[str], T | None]:
    """A parser that gives None for `never` or an empty text."""
    return lambda text: None if text.strip().lower() in ("", "never") else parse(text)


def format_duration(span: timedelta) -> str:
    """A duration as text for people."""
    seconds = int(span.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size * 2:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def format_size(count: float) -> str:
    """A number of bytes as text for people."""
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count:,.0f} {'byte' if count == 1 else 'bytes'}"
