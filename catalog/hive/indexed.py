"""Tables of a metastore as Firn's own index keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from catalog.names import CatalogName


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedBlocker:
    """Why a table cannot be upgraded as it is, and what to do."""

    code: str
    message: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedTable:
    """One table of a metastore as the last listing saw it."""

    catalog: CatalogName
    database: str
    name: str
    format: str
    location: str
    columns: int
    partition_columns: tuple[str, ...]
    ddl_time: int | None
    blockers: tuple[IndexedBlocker, ...]
    seen_at: datetime

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.name}"
