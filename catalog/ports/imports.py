"""Ports of imports: the database's entries, encryption of secrets, and the source catalogs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from catalog.imports.entry import Entry
from catalog.imports.spec import ImportSpec, Secrets
from catalog.jobs.operation import OperationId
from catalog.names import Namespace
from catalog.ports.page import Page
from firn.protocol.imports import EntryState


class ImportEntries(Protocol):
    """The entries of imports in the order found, and the secrets of running imports."""

    def add(self, entries: Sequence[Entry]) -> None: ...
    def put(self, entry: Entry) -> None: ...
    def clear(self, operation_id: OperationId) -> None:
        """Delete the entries, because the source is listed again."""

    def waiting(self, operation_id: OperationId, *, limit: int) -> Sequence[Entry]:
        """Entries without a result, in order."""

    def earlier(self, entry: Entry) -> Entry | None:
        """An earlier entry of the same import with the same name or location."""

    def list(
        self,
        operation_id: OperationId,
        *,
        states: Collection[EntryState] = (),
        limit: int,
        cursor: str | None = None,
    ) -> Page[Entry]: ...

    def remove_ended_before(self, moment: datetime) -> int:
        """Delete the entries of imports that ended before then; returns their number."""

    def keep_secrets(self, operation_id: OperationId, sealed: str) -> None:
        """Store encrypted secrets until `forget_secrets`. Nothing else in the database holds them, and no response
        shows them.
        """

    def secrets(self, operation_id: OperationId) -> str | None:
        """The stored secrets; None if the import needs none."""

    def forget_secrets(self, operation_id: OperationId) -> None:
        """Delete the secrets. The file of the database is overwritten there; see Database.truncate_log for its log."""


class Sealer(Protocol):
    """Encrypts the credentials of imports with a key that the database does not hold."""

    def seal(self, operation_id: OperationId, credentials: Secrets) -> str: ...
    def unseal(self, operation_id: OperationId, sealed: str) -> Secrets:
        """Invalid if they were sealed with another key, or for another operation."""


class ForeignCatalog(Protocol):
    """Another Iceberg REST catalog.

    Reads raise NotFound for missing objects, Forbidden and Invalid if the catalog refuses. Unavailable if it does not
    answer or is temporarily unable to.
    """

    def check(self) -> None:
        """Check that it answers."""

    def children(self, parent: Namespace) -> Iterator[Namespace]:
        """The namespaces directly under a parent; () is the top."""

    def properties(self, namespace: Namespace) -> Mapping[str, str]: ...
    def tables(self, namespace: Namespace) -> Iterator[str]: ...
    def views(self, namespace: Namespace) -> Iterator[str]:
        """Nothing if the catalog has no views."""

    def table_location(self, namespace: Namespace, name: str) -> str:
        """The location of a table's current metadata."""

    def view_location(self, namespace: Namespace, name: str) -> str: ...
    def close(self) -> None: ...


class ForeignCatalogs(Protocol):
    """Opens connections to other REST catalogs."""

    def of(self, spec: ImportSpec, secrets: Secrets) -> ForeignCatalog:
        """A catalog to close after use. Nothing is sent before the first call."""
