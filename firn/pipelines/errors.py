"""A definition that cannot be planned at all; the message begins with the place."""

from __future__ import annotations

from typing import NamedTuple

from firn.errors import Invalid


class Place(NamedTuple):
    """Where something stands: line and column count from 1. What is unknown is None.

    A `path` of None means the file of the definition: a query has parts of other files only if it reads views.
    """

    line: int | None = None
    column: int | None = None
    path: str | None = None


class InvalidDefinition(Invalid):
    """The user's file or SQL is wrong. `path`, `line` and `column` (both from 1) are None where they are unknown."""

    def __init__(
        self,
        reason: str,
        *,
        path: str | None = None,
        line: int | None = None,
        column: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(_locate(path, line, column) + reason, hint=hint)
        self.reason = reason
        self.path = path
        self.line = line
        self.column = column

    @classmethod
    def at(cls, place: Place, reason: str, *, hint: str | None = None) -> InvalidDefinition:
        """An error about a place."""
        return cls(reason, path=place.path, line=place.line, column=place.column, hint=hint)

    def in_file(self, path: str) -> InvalidDefinition:
        """The same error with the file that it is about, if it does not name another one."""
        path = self.path or path
        return InvalidDefinition(self.reason, path=path, line=self.line, column=self.column, hint=self.hint)


def _locate(path: str | None, line: int | None, column: int | None) -> str:
    parts = [path] if path else []
    if line is not None:
        parts.append(f"line {line}")
    if column is not None:
        parts.append(f"column {column}")
    return f"{', '.join(parts)}: " if parts else ""
