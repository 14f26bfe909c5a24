"""Dotted names: how people write the parts of a name, and how Spark SQL reads them.

`sales.orders` has two parts. A part that holds a dot or a backtick itself stands between backticks, as in Spark SQL, so
that a dotted name always means one table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


class InvalidName(ValueError):
    """A text that is no dotted name: `message` says why, `hint` says how to write it."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def join_name(parts: Sequence[str]) -> str:
    """The parts as one name for people; `split_name` gives them back."""
    return ".".join(quote_name(part) if "." in part or "`" in part else part for part in parts)


def split_name(text: str) -> tuple[str, ...]:
    """The parts of a dotted name; InvalidName when a part is empty or backticks do not match."""
    parts, at = [], 0
    while at <= len(text):
        found = _PART.match(text, at)
        if found is None or (found.end() < len(text) and text[found.end()] != "."):
            raise InvalidName(
                f"invalid name {text!r}: its parts are divided by dots, and each needs at least one character",
                hint="write a part with a dot or a backtick between backticks, doubling those inside: `a.b`.orders",
            )
        inside, plain = found.groups()
        parts.append(plain if inside is None else inside.replace("``", "`"))
        at = found.end() + 1
    return tuple(parts)


def quote_name(part: str) -> str:
    """One part as Spark SQL reads it, whatever characters it is made of."""
    return "`" + part.replace("`", "``") + "`"


def format_sql_name(parts: Sequence[str]) -> str:
    """The parts as Spark SQL reads them, whatever characters they are made of."""
    return ".".join(map(quote_name, parts))
