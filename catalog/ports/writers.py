"""The database's registered writers; errors as in catalog.ports.store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from catalog.commits.writers import Writer
from catalog.names import RelationId
from catalog.ports.page import Page


class Writers(Protocol):
    """The writers of tables and change stores, by name, and the positions that they have reached."""

    def add(self, writer: Writer) -> bool:
        """Store a new writer; False if the table has one of this name already."""

    def find(self, relation_id: RelationId, name: str) -> Writer | None: ...

    def lock(self, relation_id: RelationId, name: str) -> Writer | None:
        """The writer, which nobody else changes until this transaction ends."""

    def lock_all(self, relation_id: RelationId) -> Sequence[Writer]:
        """All writers of the table by name, as by `lock`."""

    def put(self, writer: Writer) -> None:
        """Replace the stored writer."""

    def count(self, relation_id: RelationId) -> int: ...

    def list_all(self, relation_id: RelationId) -> Sequence[Writer]:
        """All writers of the table by name."""

    def list(self, relation_id: RelationId, *, limit: int, cursor: str | None = None) -> Page[Writer]:
        """By name."""
