"""the search index."""

from __future__ import annotations

import sqlite3

import sqlalchemy as sa
from alembic import op

from catalog.errors import Unavailable

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_WORDS = ("name_words", "other_words")


def upgrade() -> None:
    """Make the change."""
    is_postgres = op.get_bind().dialect.name == "postgresql"
    op.create_table(
        "search_document",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("catalog", sa.String(length=255), nullable=False),
        sa.Column("key", sa.String(length=512), nullable=False),
        sa.Column("namespace", sa.String(length=1024), nullable=False),
        sa.Column("name", sa.String(length=512), nullable=False),
        sa.Column("folded_name", sa.String(length=512, collation="C" if is_postgres else None), nullable=False),
        sa.Column("name_words", sa.Text(), nullable=False),
        sa.Column("other_words", sa.Text(), nullable=False),
        sa.Column("texts", sa.JSON(), nullable=False),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("digest", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_search_document")),
        sa.UniqueConstraint("kind", "key", "catalog", name=op.f("uq_search_document_kind_key_catalog")),
    )
    op.create_index("ix_search_document_folded_name", "search_document", ["folded_name"])
    op.create_index("ix_search_document_place", "search_document", ["kind", "catalog", "namespace"])
    op.create_table(
        "search_position",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("position", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_search_position")),
    )
    if is_postgres:
        _add_text_indexes()
    else:
        _add_word_table()


def _add_text_indexes() -> None:
    for column in _WORDS:
        # Without the list of pending entries, which each search would read.
        op.execute(
            f"CREATE INDEX ix_search_document_{column} ON search_document"
            f" USING gin (array_to_tsvector(string_to_array({column}, ' '))) WITH (fastupdate = off)"
        )


def _add_word_table() -> None:
    """Add the full-text table of SQLite, and the triggers that keep it like the documents.

    The words are split already, so the simplest tokenizer reads them unchanged.
    """
    names = ", ".join(_WORDS)
    old, new = (", ".join(f"{row}.{column}" for column in _WORDS) for row in ("old", "new"))
    try:
        op.execute(
            f"CREATE VIRTUAL TABLE search_word USING fts5({names}, content='search_document', content_rowid='id',"
            " tokenize='ascii', detail='column', prefix='1 2 3')"
        )
    except (sqlite3.OperationalError, sa.exc.OperationalError) as error:
        if "no such module" not in str(error):  # SQLite has no code for it
            raise
        raise Unavailable(
            "this Python's SQLite has no full-text search (FTS5), which the search of the console needs",
            hint="use a Python with a complete SQLite, such as that of your distribution, or PostgreSQL",
        ) from error
    insert = f"INSERT INTO search_word(rowid, {names}) VALUES (new.id, {new});"  # noqa: S608 (constants)
    remove = f"INSERT INTO search_word(search_word, rowid, {names}) VALUES ('delete', old.id, {old});"  # noqa: S608
    for name, when, body in (
        ("insert", "INSERT", insert),
        ("delete", "DELETE", remove),
        ("update", f"UPDATE OF {names}", f"{remove} {insert}"),
    ):
        op.execute(f"CREATE TRIGGER search_document_{name} AFTER {when} ON search_document BEGIN {body} END")


def downgrade() -> None:
    """Take it back."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE search_word")
    op.drop_table("search_position")
    op.drop_table("search_document")
