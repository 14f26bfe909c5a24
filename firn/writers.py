"""Writers of a table and their positions: `client.tables["db.t"].writers`."""

from __future__ import annotations

from dataclasses import dataclass

from firn.history import quoted
from firn.protocol.answers.writers import WriterOut
from firn.transport import Transport


@dataclass(frozen=True, slots=True)
class TableWriters:
    """The writers that have registered for one table."""

    transport: Transport
    path: str

    def list(self) -> list[WriterOut]:
        """All writers by name, with those that were fenced for good."""
        return [WriterOut.read(document) for document in self.transport.items(self.path)]

    def get(self, name: str) -> WriterOut:
        """One writer: its epoch, and the position up to which the table has its records."""
        return WriterOut.read(self.transport.get(self._path_to(name)))

    def register(self, name: str) -> WriterOut:
        """Register a new copy of a writer, before it reads. The server refuses later commits of all earlier copies.

        If no answer comes, register again: nothing but the epoch changes.
        """
        return WriterOut.read(self.transport.change("POST", self._path_to(name)))

    def fence(self, name: str) -> None:
        """End a writer for good: nobody commits or registers under its name again."""
        self.transport.change("DELETE", self._path_to(name))

    def _path_to(self, name: str) -> str:
        return f"{self.path}/{quoted(name)}"
