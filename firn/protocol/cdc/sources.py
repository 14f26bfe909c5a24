"""Which tables of a source belong to a table: names such as `shop.orders`, or patterns such as `shop_*.orders`."""

from __future__ import annotations

import re
from collections.abc import Sequence

_LONGEST = 20_000
_MOST_STARS = 4
"""More would make a match slow."""


def parse_sources(text: str) -> tuple[str, ...]:
    """The patterns of a text, separated by commas; ValueError for a text that has none. `*` stands for any text."""
    patterns = tuple(part.strip() for part in text.split(","))
    if len(text) > _LONGEST or not all(patterns):
        raise ValueError(f"{text[:80]!r} names no tables of a source")
    for pattern in patterns:
        if pattern.count("*") > _MOST_STARS:
            raise ValueError(f"{pattern[:80]!r} has more than {_MOST_STARS} asterisks")
    return patterns


def matches_source(name: str, patterns: Sequence[str]) -> bool:
    """Whether a source's table, by its full name, is one of the patterns. No pattern takes all."""
    return not patterns or any(_matches(name, pattern) for pattern in patterns)


def _matches(name: str, pattern: str) -> bool:
    expression = ".*".join(re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(expression, name, re.DOTALL) is not None
