"""Names as people type them, part by part: the same rules as the server's (catalog/names.py; a test compares).

`sales.orders` has two parts; a part that holds a dot or a backtick itself stands between backticks, as in Spark SQL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from firn.errors import Invalid

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def dotted(parts: Sequence[str]) -> str:
    """The parts as one name for people; `parts_of` gives them back."""
    return ".".join(quoted(part) if "." in part or "`" in part else part for part in parts)


def parts_of(text: str) -> tuple[str, ...]:
    """The parts of a dotted name; Invalid when a part is empty or backticks do not match."""
    parts, at = [], 0
    while at <= len(text):
        found = _PART.match(text, at)
        if found is None or (found.end() < len(text) and text[found.end()] != "."):
            raise Invalid(
                f"invalid name {text!r}: its parts are divided by dots, and each needs at least one character",
                hint="write a part with a dot or a backtick between backticks, doubling those inside: `a.b`.orders",
            )
        inside, plain = found.groups()
        parts.append(plain if inside is None else inside.replace("``", "`"))
        at = found.end() + 1
    return tuple(parts)


def quoted(part: str) -> str:
    """One part as Spark SQL reads it, whatever characters it is made of."""
    return "`" + part.replace("`", "``") + "`"


def sql_name(parts: Sequence[str]) -> str:
    """The parts as Spark SQL reads them, whatever characters they are made of."""
    return ".".join(map(quoted, parts))
