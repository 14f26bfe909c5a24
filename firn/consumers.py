"""Consumers of a keyed table's changes: `client.tables["db.t"].consumers`."""

from __future__ import annotations

from dataclasses import dataclass

from firn.changes import Position, write_position
from firn.history import quoted
from firn.protocol.answers.consumers import ConsumerOut
from firn.transport import Transport


@dataclass(frozen=True, slots=True)
class TableConsumers:
    """The consumers of one table."""

    transport: Transport
    path: str

    def list(self) -> list[ConsumerOut]:
        """All consumers by name, with their lag."""
        return [ConsumerOut.read(document) for document in self.transport.get(self.path)]

    def get(self, name: str) -> ConsumerOut:
        """One consumer: the version up to which it has the changes, and its lag."""
        return ConsumerOut.read(self.transport.get(self._path_to(name)))

    def move(self, name: str, *, to: Position | None = None, expected_version: int | None = None) -> ConsumerOut:
        """Register a consumer, or move it to the version up to which it has the changes, by default to the newest one.

        Refused if `expected_version` is given and the consumer is at another version.
        """
        body = {"to": None if to is None else write_position(to), "expected_version": expected_version}
        return ConsumerOut.read(self.transport.change("POST", self._path_to(name), body))

    def drop(self, name: str) -> None:
        """Drop a consumer: snapshot expiry keeps nothing for it any more."""
        self.transport.change("DELETE", self._path_to(name))

    def _path_to(self, name: str) -> str:
        return f"{self.path}/{quoted(name)}"
