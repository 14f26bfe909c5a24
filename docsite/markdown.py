"""Text of help and API descriptions, made safe to stand in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def escape(text: str) -> str:
    """The words of a text on one line, with the characters escaped that would start a tag or a cell."""
    return " ".join(text.split()).replace("<", "&lt;").replace("|", "\\|")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; empty if there are no rows. Cells are Markdown already."""
    body = [f"| {' | '.join(row)} |" for row in rows]
    if not body:
        return ""
    return "\n".join([f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}", *body]) + "\n"
