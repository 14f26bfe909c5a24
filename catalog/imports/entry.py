"""Entries of an import: each object found, and its result."""

from __future__ import annotations

from dataclasses import dataclass, field

from catalog.jobs.operation import OperationId
from catalog.names import Namespace, TableName
from firn.protocol.imports import EntryKind, EntryState
from firn.protocol.names import join_name


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEntry:
    """One object in the source. `metadata_location` is None until the import asks the source for it."""

    kind: EntryKind
    namespace: Namespace
    name: str = ""
    source: str = ""
    metadata_location: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    state: EntryState = EntryState.FOUND
    reason: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of an import's list. `namespace` and `name` are its name in this catalog."""

    operation_id: OperationId
    number: int
    kind: EntryKind
    namespace: Namespace
    name: str
    source: str
    state: EntryState
    metadata_location: str | None = None
    uuid: str | None = None
    location: str | None = None
    reason: str | None = None
    hint: str | None = None
    warnings: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def table(self) -> TableName:
        """Its name in this catalog; Invalid if it cannot be a name."""
        return TableName(self.namespace, self.name)

    @property
    def full_name(self) -> str:
        """Its name as people write it."""
        return join_name((*self.namespace, self.name) if self.name else self.namespace)
