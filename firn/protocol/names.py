"""Dotted names: how people write the parts of a name, and how Spark SQL reads them.

`sales.orders` has two parts. A part that holds a dot or a backtick itself stands between backticks, as in Spark SQL, so
that a dotted name always means one table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


class InvalidName(ValueError):
    """A text that is not a dotted name: `message` has the reason, `hint` the right form."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def join_name(parts: Sequence[str]) -> str:
    """Join parts to one name for people; `split_name` is the inverse."""
    return ".".join(quote_name(part) if "." in part or "`" in part else part for part in parts)


def split_name(text: str) -> tuple[str, ...]:
    """Split a dotted name into parts; raise InvalidName if a part is empty or backticks do not match."""
    parts, at = [], 0
    while at <= len(text):
        match = _PART.match(text, at)
        if match is None or (match.end() < len(text) and text[match.end()] != "."):
            raise InvalidName(
                f"invalid name {text!r}: its parts are divided by dots, and each needs at least one character",
                hint="write a part with a dot or a backtick between backticks, doubling those inside: `a.b`.orders",
            )
        inside, plain = match.groups()
        parts.append(plain if inside is None else inside.replace("``", "`"))
        at = match.end() + 1
    return tuple(parts)


def quote_name(part: str) -> str:
    """Quote one part for Spark SQL, whatever characters it has."""
    return "`" + part.replace("`", "``") + "`"


def format_sql_name(parts: Sequence[str]) -> str:
    """Quote and join parts for Spark SQL, whatever characters they have."""
    return ".".join(map(quote_name, parts))
