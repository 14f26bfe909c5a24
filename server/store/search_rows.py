"""The tables of the search index. Migration 0005 adds the full-text indexes, which each database has of its own."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from server.store.rows import BigKey, Row

WORD_TABLE = "search_word"
"""SQLite's full-text table over the words, which triggers keep; the tables of its index have longer names."""
TEXT_INDEXES = ("ix_search_document_name_words", "ix_search_document_other_words")
"""PostgreSQL's full-text indexes."""


def is_described(_item: object, name: str | None, kind: str, _reflected: object, _compared: object) -> bool:
    """Whether a class describes something in the database: none describes what migration 0005 adds by dialect.

    Alembic calls it before it compares the database with the classes.
    """
    is_word_table = kind == "table" and name is not None and name.startswith(WORD_TABLE)
    return not is_word_table and not (kind == "index" and name in TEXT_INDEXES)


class SearchDocumentRow(Row):
    """The words and texts of one table, view or Hive table; `key` is a relation's id or `database.table`."""

    __tablename__ = "search_document"
    __table_args__ = (
        UniqueConstraint("kind", "key", "catalog"),
        Index("ix_search_document_folded_name", "folded_name"),
        Index("ix_search_document_place", "kind", "catalog", "namespace"),
    )
    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    kind: Mapped[str] = mapped_column(String(32))
    catalog: Mapped[str] = mapped_column(String(255))
    key: Mapped[str] = mapped_column(String(512))
    namespace: Mapped[str] = mapped_column(String(1024))
    name: Mapped[str] = mapped_column(String(512))
    folded_name: Mapped[str] = mapped_column(
        # PostgreSQL's other collations do not keep names with a common beginning together.
        String(512).with_variant(String(512, collation="C"), "postgresql")
    )
    name_words: Mapped[str] = mapped_column(Text)
    other_words: Mapped[str] = mapped_column(Text)
    texts: Mapped[dict[str, Any]]
    source: Mapped[str] = mapped_column(String(32))
    digest: Mapped[str] = mapped_column(String(32))


class SearchPositionRow(Row):
    """How far the task that fills the index has come: in the history of commits, and in its round of all tables."""

    __tablename__ = "search_position"
    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    position: Mapped[str] = mapped_column(String(255))
