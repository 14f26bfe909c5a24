"""Imports of tables that are somewhere already: in a warehouse, in another REST catalog, in a Hive Metastore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from firn.protocol.answers.imports import EntryOut
from firn.protocol.answers.operations import OperationOut
from firn.transport import Transport


class ImportOptions(BaseModel):
    """What an import takes and how; see the server's documentation of imports."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    warehouse: str | None = None
    token: str | None = Field(default=None, repr=False)
    credential: str | None = Field(default=None, repr=False)
    token_server: str | None = None
    scope: str | None = None
    into: str | None = None
    namespace_depth: int | None = None
    include: list[str] = []
    exclude: list[str] = []
    dry_run: bool = False
    overwrite: bool = False
    refresh: bool = False
    allow_locations: list[str] = []


@dataclass(frozen=True, slots=True)
class Imports:
    """Starts imports and tells what they have found."""

    transport: Transport

    def start(self, catalog: str, source: str, address: str, options: ImportOptions | None = None) -> OperationOut:
        """Import from a `warehouse`, `rest` or `hive` source; returns at once, the operation tells how far it is."""
        params = {} if options is None else options.model_dump(exclude_none=True)
        body = {"source": source, "address": address, **params}
        return OperationOut.read(self.transport.change("POST", self._path(catalog), body))

    def entries(
        self, catalog: str, operation_id: UUID | str, *, states: Sequence[str] = (), limit: int | None = None
    ) -> Iterator[EntryOut]:
        """What was found and what became of it, in the order found."""
        path = f"{self._path(catalog)}/{operation_id}/entries"
        documents = self.transport.items(path, {"state": states or None, "limit": 500}, limit=limit)
        return (EntryOut.read(document) for document in documents)

    def resume(self, catalog: str, operation_id: UUID | str) -> OperationOut:
        """Ask the source again now, without waiting until the import does by itself."""
        path = f"{self._path(catalog)}/{operation_id}/resume"
        return OperationOut.read(self.transport.change("POST", path))

    @staticmethod
    def _path(catalog: str) -> str:
        return f"/catalogs/{quote(catalog, safe='')}/imports"
