"""The option --where: which tables of the metastore a command concerns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated

import typer

from firn.errors import Invalid

_FLAGS = ("out_of_sync", "partitioned", "checked", "failed")
_SIZES = ("min_bytes", "max_bytes")
_TEXTS = ("database", "search", "state", "format", "blocker", "writer", "written_since", "written_before")
_NUMBERS = ("min_rows", "max_rows", "min_partitions", "max_partitions")
KEYS = (*_TEXTS, *_FLAGS, *_SIZES, *_NUMBERS)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?)b?", re.IGNORECASE)
_POWERS = "kmgtp"

Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help=f"Only tables with this value, such as max_bytes=10GB; may be repeated. Keys: {', '.join(KEYS)}.",
    ),
]


def parse_where(where: Sequence[str] | None) -> dict[str, str | int | bool]:
    """Parse the options into the filter of the server."""
    only: dict[str, str | int | bool] = {}
    for text in where or ():
        key, equals, value = text.partition("=")
        if key not in KEYS:
            close = get_close_matches(key, KEYS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"the keys are {', '.join(KEYS)}"
            raise Invalid(f"--where has no key {key!r}", hint=hint)
        if not equals or not value:
            raise Invalid(f"--where {key} has no value", hint=f"write --where {key}=VALUE")
        if key in only:
            raise Invalid(f"--where {key} is given twice", hint="give each key once; all keys apply together")
        only[key] = _parse_value(key, value)
    return only


def _parse_value(key: str, value: str) -> str | int | bool:
    if key in _FLAGS:
        if value.lower() not in ("true", "false"):
            raise Invalid(f"--where {key} is {value!r}", hint="write true or false")
        return value.lower() == "true"
    if key in _SIZES:
        return _parse_size(key, value)
    if key in _NUMBERS:
        if not value.isascii() or not value.isdecimal():
            raise Invalid(f"--where {key} is {value!r}", hint="write a whole number")
        return int(value)
    return value


def _parse_size(key: str, value: str) -> int:
    match = _SIZE.fullmatch(value)
    if match is None:
        raise Invalid(f"--where {key} is {value!r}", hint="write a size such as 500MB, 10GiB or a number of bytes")
    number, unit, binary = match.groups()
    power = _POWERS.index(unit.lower()) + 1 if unit else 0
    return int(float(number) * (1024 if binary else 1000) ** power)
