"""Imports of tables that are somewhere already: in a warehouse, in another REST catalog, in a Hive Metastore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote
from uuid import UUID

from firn.transport import Transport
from firn.wire import ImportEntry, ImportOptions, Operation


@dataclass(frozen=True, slots=True)
class Imports:
    """Starts imports and tells what they have found."""

    transport: Transport

    def start(self, catalog: str, source: str, address: str, options: ImportOptions | None = None) -> Operation:
        """Import from a `warehouse`, `rest` or `hive` source; returns at once, the operation tells how far it is."""
        asked = {} if options is None else options.model_dump(exclude_none=True)
        body = {"source": source, "address": address, **asked}
        return Operation.model_validate(self.transport.change("POST", self._path(catalog), body))

    def entries(
        self, catalog: str, operation_id: UUID | str, *, states: Sequence[str] = (), limit: int | None = None
    ) -> Iterator[ImportEntry]:
        """What was found and what became of it, in the order found."""
        path = f"{self._path(catalog)}/{operation_id}/entries"
        found = self.transport.items(path, {"state": states or None, "limit": 500}, limit=limit)
        return (ImportEntry.model_validate(one) for one in found)

    def resume(self, catalog: str, operation_id: UUID | str) -> Operation:
        """Ask the source again now, without waiting until the import does by itself."""
        path = f"{self._path(catalog)}/{operation_id}/resume"
        return Operation.model_validate(self.transport.change("POST", path))

    @staticmethod
    def _path(catalog: str) -> str:
        return f"/catalogs/{quote(catalog, safe='')}/imports"
