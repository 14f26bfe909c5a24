"""Columns as people type them: `id long, day date 'when it was', amount decimal(10,2)`, bare or in CREATE TABLE (…)."""

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
    """Name, type and comment of each; Invalid names the first that is none.  Types are judged by the server."""
    bare = _LINE_COMMENT.sub("", text).strip()
    if statement := _STATEMENT.match(bare):
        bare = _inside_brackets(bare[statement.end() :])
    return [_column(part) for part in _parts(bare) if part.strip()]


def pairs(given: list[str] | None) -> dict[str, str]:
    """KEY=VALUE, as often as it was given; Invalid for what sets nothing."""
    pairs = [one.partition("=") for one in given or []]
    wrong = [key for key, sign, _ in pairs if not sign or not key]
    if wrong:
        raise Invalid(f"{wrong[0]!r} sets nothing", hint="write KEY=VALUE")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _column(text: str) -> dict[str, str | None]:
    found = _COLUMN.fullmatch(text.strip())
    if found is None:
        raise Invalid(f"{text.strip()!r} is no column", hint="write NAME TYPE, such as 'id long, amount decimal(10,2)'")
    name, kind, comment = found.groups()
    return {"name": name.strip("`"), "type": kind.strip(), "comment": comment and comment.replace("''", "'")}


def _inside_brackets(text: str) -> str:
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:position]
    raise Invalid("CREATE TABLE ends before its columns do", hint="close the bracket")


def _parts(text: str) -> list[str]:
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
