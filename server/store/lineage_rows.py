"""The tables of lineage: nodes, edges, and what the edges were read from."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import JSON, BigInteger, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from server.store.rows import BigKey, Row


class LineageNodeRow(Row):
    """A node; its key is a digest of what it is."""

    __tablename__ = "lineage_node"
    key: Mapped[str] = mapped_column(String(32), primary_key=True)
    kind: Mapped[str] = mapped_column(String(32))
    within: Mapped[str] = mapped_column(Text)
    namespace: Mapped[str] = mapped_column(String(1024))
    name: Mapped[str] = mapped_column(Text)
    relation_id: Mapped[UUID | None]


class LineageEdgeRow(Row):
    """An edge; `definition_id` is the view or pipeline that has it, and the zero UUID for what was observed."""

    __tablename__ = "lineage_edge"
    __table_args__ = (
        UniqueConstraint("source", "target", "origin", "definition_id"),
        Index("ix_lineage_edge_target", "target", "last_seen"),
        Index("ix_lineage_edge_source", "source", "last_seen"),
        Index("ix_lineage_edge_definition", "definition_id"),
        Index("ix_lineage_edge_sender", "origin", "principal"),
        Index("ix_lineage_edge_age", "last_seen"),
    )
    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    source: Mapped[str] = mapped_column(String(32))
    target: Mapped[str] = mapped_column(String(32))
    origin: Mapped[str] = mapped_column(String(32))
    definition_id: Mapped[UUID]
    first_seen: Mapped[datetime]
    last_seen: Mapped[datetime]
    principal: Mapped[str | None] = mapped_column(String(255))
    columns: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


class LineageDefinitionRow(Row):
    """A view or pipeline whose edges are stored; after a failure the server reads it again from `retry_at` on."""

    __tablename__ = "lineage_definition"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(32))
    version: Mapped[int] = mapped_column(BigInteger)
    retry_at: Mapped[datetime | None]


class LineagePositionRow(Row):
    """The last commit and the last report that the edges know."""

    __tablename__ = "lineage_position"
    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    position: Mapped[int] = mapped_column(BigInteger)
