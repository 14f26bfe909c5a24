"""The tables of trends: one row with all samples of a table, namespace or catalog."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Index, LargeBinary, String, text
from sqlalchemy.orm import Mapped, mapped_column

from server.store.rows import Row

UNPUBLISHED = text("unpublished_since IS NOT NULL")


class TableTrendRow(Row):
    """The samples of a table; `unpublished_since` is that of the newest one, for the sums of namespaces."""

    __tablename__ = "table_trend"
    __table_args__ = (
        Index(
            "ix_table_trend_unpublished",
            "relation_id",
            "unpublished_since",
            sqlite_where=UNPUBLISHED,
            postgresql_where=UNPUBLISHED,
        ),
    )
    relation_id: Mapped[UUID] = mapped_column(primary_key=True)
    unpublished_since: Mapped[int | None]
    samples: Mapped[bytes] = mapped_column(LargeBinary)


class ScopeTrendRow(Row):
    """The samples of a namespace, or with the namespace '' of a catalog, and the newest state again."""

    __tablename__ = "scope_trend"
    catalog: Mapped[str] = mapped_column(String(255), primary_key=True)
    namespace: Mapped[str] = mapped_column(String(1024), primary_key=True)
    newest: Mapped[dict[str, Any]]
    samples: Mapped[bytes] = mapped_column(LargeBinary)


class TrendPositionRow(Row):
    """The time through which the samples of tables are complete; one row."""

    __tablename__ = "trend_position"
    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    position: Mapped[datetime]
