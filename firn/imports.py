"""Imports of existing tables from a warehouse, another REST catalog or a Hive Metastore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote
from uuid import UUID

from firn.protocol.answers.imports import EntryOut
from firn.protocol.answers.operations import OperationOut
from firn.protocol.imports import ImportOptions, reveal_secret
from firn.transport import Transport


@dataclass(frozen=True, slots=True)
class Imports:
    """Starts imports and lists their entries."""

    transport: Transport

    def start(self, catalog: str, source: str, address: str, options: ImportOptions | None = None) -> OperationOut:
        """Start an import from a `warehouse`, `rest` or `hive` source; the returned operation tells its progress."""
        options = options or ImportOptions()
        secrets = {"token": reveal_secret(options.token), "credential": reveal_secret(options.credential)}
        body = {"source": source, "address": address, **options.model_dump(exclude_none=True, exclude={*secrets})}
        body |= {name: secret for name, secret in secrets.items() if secret is not None}
        return OperationOut.read(self.transport.change("POST", self._path(catalog), body))

    def entries(
        self, catalog: str, operation_id: UUID | str, *, states: Sequence[str] = (), limit: int | None = None
    ) -> Iterator[EntryOut]:
        """List the entries of an import with their results, in the order of its listing."""
        path = f"{self._path(catalog)}/{operation_id}/entries"
        documents = self.transport.items(path, {"state": states or None, "limit": 500}, limit=limit)
        return (EntryOut.read(document) for document in documents)

    def resume(self, catalog: str, operation_id: UUID | str) -> OperationOut:
        """Continue a waiting import now instead of at its next scheduled attempt."""
        path = f"{self._path(catalog)}/{operation_id}/resume"
        return OperationOut.read(self.transport.change("POST", path))

    @staticmethod
    def _path(catalog: str) -> str:
        return f"/catalogs/{quote(catalog, safe='')}/imports"
