"""Requests that are almost right: one, two or three places of a good one replaced, dropped or repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

Path = tuple[str | int, ...]

DIGITS = "9" * 5_000
"""Python itself refuses to read a number of so many digits."""


def _deep(levels: int) -> Any:
    nested: Any = "x"
    for _ in range(levels):
        nested = {"type": "list", "element-id": 1, "element": nested, "element-required": False}
    return nested


JUNK: list[Any] = [
    *(None, True, 0, 1, -1, 1.5, 2**31, 2**62, 2**63 - 1, 2**63, -(2**63), 2**80, float("nan")),
    *("", "x", "main", "none", "-1", DIGITS, "9" * 25, "٣", "\x00", "\ud800", "a" * 700, "firn.merged-through"),
    *([], [None], [1], ["x"], [[]], [{}], {}, {"x": None}, {"x": "y"}, {"": 1}, {"gc.enabled": []}),
    *({"format-version": DIGITS}, {"write.metadata.previous-versions-max": DIGITS}, f"bucket[{DIGITS}]"),
    *("foo://bar", "relative", "file:/\x00", "file://elsewhere/x", "main", "ADD-SNAPSHOT", "unheard-of"),
    *(_deep(60), _deep(300)),
]


def places(value: Any, above: Path = ()) -> Iterator[Path]:
    """Every place inside a JSON value."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*above, key)
        yield from places(inner, (*above, key))


def spoiled(body: Any, rng: Random) -> Any:
    """The body with a few places spoiled."""
    changed = deepcopy(body)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        known = list(places(changed))
        if not known:
            return changed
        *above, last = rng.choice(known)
        holder = changed
        for key in above:
            holder = holder[key]
        _spoil(holder, last, rng)
    return changed


def _spoil(holder: Any, key: Any, rng: Random) -> None:
    match rng.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.append(deepcopy(holder[key]))
        case 1 if isinstance(holder[key], str):
            holder[key] = holder[key].upper()
        case 2 if isinstance(holder, dict):
            holder[rng.choice(["x", "firn.merged-through", "firn.writer-id", "updated", "removed"])] = rng.choice(JUNK)
        case _:
            holder[key] = deepcopy(rng.choice(JUNK))


def text_of(body: Any) -> bytes:
    """As it goes over the wire: what UTF-8 cannot hold is escaped, NaN stands there as Python writes it."""
    return json.dumps(body).encode()
