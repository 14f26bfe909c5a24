"""Parses typed columns, bare or in CREATE TABLE (…): `id long, day date 'when it was', amount decimal(10,2)`."""

from __future__ import annotations

import re

from firn.errors import Invalid

_OPENING, _CLOSING = "(<", ")>"
_COLUMN = re.compile(
    r"(`[^`]+`|\w+)\s+(.+?)(?:\s+NOT\s+NULL)?(?:\s+COMMENT)?(?:\s+'((?:[^']|'')*)')?", re.IGNORECASE | re.DOTALL
)
_STATEMENT = re.compile(r"\s*CREATE\s+TABLE\b[^(]*", re.IGNORECASE)
_LINE_COMMENT = re.compile(r"--[^\n]*")


def parse_columns(text: str) -> list[dict[str, str | None]]:
    """Parse the name, type and comment of each column; raise Invalid for the first wrong one."""
    bare = _LINE_COMMENT.sub("", text).strip()
    if statement := _STATEMENT.match(bare):
        bare = _inside_brackets(bare[statement.end() :])
    return [_parse_column(part) for part in _split_columns(bare) if part.strip()]


def parse_pairs(texts: list[str] | None) -> dict[str, str]:
    """Parse each KEY=VALUE; raise Invalid for a text without a key or without `=`."""
    pairs = {}
    for text in texts or []:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise Invalid(f"{text!r} is not of the form KEY=VALUE", hint="write KEY=VALUE")
        pairs[key.strip()] = value.strip()
    return pairs


def _parse_column(text: str) -> dict[str, str | None]:
    match = _COLUMN.fullmatch(text.strip())
    if match is None:
        raise Invalid(
            f"{text.strip()!r} is not a column", hint="write NAME TYPE, such as 'id long, amount decimal(10,2)'"
        )
    name, kind, comment = match.groups()
    return {"name": name.strip("`"), "type": kind.strip(), "comment": comment and comment.replace("''", "'")}


def _inside_brackets(text: str) -> str:
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:position]
    raise Invalid("the list of columns has no closing bracket", hint="add the missing )")


def _split_columns(text: str) -> list[str]:
    """Split at commas outside of brackets and quotes."""
    parts, depth, quoted = [""], 0, False
    for letter in text:
        quoted ^= letter == "'"
        if not quoted:
            depth += (letter in _OPENING) - (letter in _CLOSING)
        if letter == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
