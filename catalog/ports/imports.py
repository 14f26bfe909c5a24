"""What imports need: a place for what was found, and the catalogs that tables come from."""

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
    """What imports have found, in the order found, and the secrets of those that still run."""

    def add(self, entries: Sequence[Entry]) -> None: ...
    def put(self, entry: Entry) -> None: ...
    def clear(self, operation_id: OperationId) -> None:
        """Forget what was found: the source is listed anew."""

    def waiting(self, operation_id: OperationId, *, limit: int) -> Sequence[Entry]:
        """Those that nothing has become of yet, in order."""

    def earlier(self, entry: Entry) -> Entry | None:
        """One before it in the same import that would be registered under the same name or over the same location."""

    def list(
        self,
        operation_id: OperationId,
        *,
        states: Collection[EntryState] = (),
        limit: int,
        cursor: str | None = None,
    ) -> Page[Entry]: ...

    def remove_ended_before(self, moment: datetime) -> int:
        """Forget what imports that ended before then have found; how many entries that were."""

    def keep_secrets(self, operation_id: OperationId, sealed: str) -> None:
        """Until `forget_secrets`, encrypted; nothing else in the database holds them, and no answer shows them."""

    def secrets(self, operation_id: OperationId) -> str | None:
        """As they were kept; None where none were needed."""

    def forget_secrets(self, operation_id: OperationId) -> None:
        """Overwritten in the file of the database; see Database.truncate_log for its log."""


class Sealer(Protocol):
    """Encrypts the credentials of imports with a key that the database does not hold."""

    def seal(self, operation_id: OperationId, credentials: Secrets) -> str: ...
    def unseal(self, operation_id: OperationId, sealed: str) -> Secrets:
        """Invalid when they were sealed with another key, or for another operation."""


class ForeignCatalog(Protocol):
    """Another Iceberg REST catalog.

    Reads raise NotFound for what is not there, Forbidden and Invalid for what the catalog refuses, and Unavailable
    when it does not answer or says that it cannot just now.
    """

    def check(self) -> None:
        """Whether it answers."""

    def children(self, parent: Namespace) -> Iterator[Namespace]:
        """Namespaces directly under a parent; () is the top."""

    def properties(self, namespace: Namespace) -> Mapping[str, str]: ...
    def tables(self, namespace: Namespace) -> Iterator[str]: ...
    def views(self, namespace: Namespace) -> Iterator[str]:
        """Nothing where the catalog has no views."""

    def table_location(self, namespace: Namespace, name: str) -> str:
        """Where a table's current metadata lies."""

    def view_location(self, namespace: Namespace, name: str) -> str: ...
    def close(self) -> None: ...


class ForeignCatalogs(Protocol):
    """Where connections to other REST catalogs come from."""

    def of(self, spec: ImportSpec, secrets: Secrets) -> ForeignCatalog:
        """A catalog to be closed after use; nothing is sent before the first call."""
