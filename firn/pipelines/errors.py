"""A definition that cannot be planned at all; the message begins with the place."""

from __future__ import annotations

from firn.errors import Invalid


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

    def in_file(self, path: str) -> InvalidDefinition:
        """The same error with the file that it is about."""
        return InvalidDefinition(self.reason, path=path, line=self.line, column=self.column, hint=self.hint)


def _locate(path: str | None, line: int | None, column: int | None) -> str:
    parts = [path] if path else []
    if line is not None:
        parts.append(f"line {line}")
    if column is not None:
        parts.append(f"column {column}")
    return f"{', '.join(parts)}: " if parts else ""
