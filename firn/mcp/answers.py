"""What tools answer: documents of a bounded size, and errors that say what to do."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, ParamSpec, TypeVar

from mcp.server.mcpserver.exceptions import ToolError

from firn.errors import FirnError

P = ParamSpec("P")
R = TypeVar("R")
Document = dict[str, Any]

LONGEST_TEXT = 2_000
"""Characters of one text. A comment or a value can have megabytes, an assistant reads some thousand words at once."""
LARGEST_ANSWER = 100_000
"""Characters of the JSON of one answer."""


def answers(tool: Callable[P, R]) -> Callable[P, R]:
    """Make a tool tell the assistant why the server refused, and what to do about it."""

    @functools.wraps(tool)
    def run(*args: P.args, **options: P.kwargs) -> R:
        try:
            return tool(*args, **options)
        except FirnError as error:
            raise explain(error) from error

    return run


def explain(error: FirnError) -> ToolError:
    """The error as an assistant reads it."""
    return ToolError(f"{error.message}\nWhat to do: {error.hint}" if error.hint else error.message)


def build_page(name: str, items: Iterable[Document], limit: int, **facts: Any) -> Document:
    """The first items of a list, cut to a size that fits into an answer, and whether there are more.

    Takes one item more than `limit` from the list, to know whether there is one.
    """
    shown, length = [], 0
    listed = [shorten(item) for item in islice(items, limit + 1)]
    for item in listed[:limit]:
        length += len(json.dumps(item, default=str))
        if length > LARGEST_ANSWER:
            break
        shown.append(item)
    return {**facts, name: shown, "has_more": len(listed) > len(shown)}


def shorten(value: Any) -> Any:
    """Cut long texts anywhere in a document; each ends with the number of characters that it lacks."""
    if isinstance(value, str):
        lacks = len(value) - LONGEST_TEXT
        return value if lacks <= 0 else f"{value[:LONGEST_TEXT]}… ({lacks:,} more characters)"
    if isinstance(value, dict):
        return {shorten(key): shorten(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [shorten(part) for part in value]
    return value
