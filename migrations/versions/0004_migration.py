"""facts of Hive tables and waves of upgrades."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_NUMBERS = ("partitions", "files", "bytes", "rows", "last_write")
_ORDERED = ("bytes", "rows", "partitions", "last_write")


def upgrade() -> None:
    """Make the change."""
    with op.batch_alter_table("hive_table", schema=None) as batch_op:
        for name in _NUMBERS:
            batch_op.add_column(sa.Column(name, sa.BigInteger(), nullable=False, server_default="-1"))
        batch_op.add_column(sa.Column("writer", sa.String(length=255), nullable=False, server_default=""))
        batch_op.add_column(sa.Column("blocker", sa.String(length=64), nullable=False, server_default=""))
        batch_op.add_column(sa.Column("checked", sa.JSON(), nullable=False, server_default="[]"))
        batch_op.add_column(sa.Column("checked_at", sa.DateTime(timezone=True), nullable=True))
        batch_op.add_column(sa.Column("failure", sa.Text(), nullable=True))
    with op.batch_alter_table("hive_link", schema=None) as batch_op:
        batch_op.add_column(sa.Column("published", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.execute("UPDATE hive_link SET published = TRUE WHERE link ->> 'published_at' IS NOT NULL")
    # The next listing fills the facts; the code names every value, so the defaults go.
    with op.batch_alter_table("hive_table", schema=None) as batch_op:
        for name in (*_NUMBERS, "writer", "blocker", "checked"):
            batch_op.alter_column(name, server_default=None)
        for name in _ORDERED:
            batch_op.create_index(f"ix_hive_table_{name}", ["catalog", name], unique=False)
        batch_op.create_index("ix_hive_table_blocker", ["catalog", "blocker", "database", "name"], unique=False)
    with op.batch_alter_table("hive_link", schema=None) as batch_op:
        batch_op.alter_column("published", server_default=None)
    op.create_table(
        "hive_wave",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("batch", sa.Uuid(), nullable=False),
        sa.Column("catalog", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("selection", sa.JSON(), nullable=False),
        sa.Column("tables", sa.BigInteger(), nullable=False),
        sa.Column("stop_after", sa.BigInteger(), nullable=True),
        sa.Column("failures_allowed", sa.BigInteger(), nullable=True),
        sa.Column("stopped", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_hive_wave")),
        sa.UniqueConstraint("batch", name=op.f("uq_hive_wave_batch")),
    )
    with op.batch_alter_table("hive_wave", schema=None) as batch_op:
        batch_op.create_index("ix_hive_wave_catalog", ["catalog", "number"], unique=False)


def downgrade() -> None:
    """Take it back."""
    op.drop_table("hive_wave")
    with op.batch_alter_table("hive_link", schema=None) as batch_op:
        batch_op.drop_column("published")
    with op.batch_alter_table("hive_table", schema=None) as batch_op:
        batch_op.drop_index("ix_hive_table_blocker")
        for name in _ORDERED:
            batch_op.drop_index(f"ix_hive_table_{name}")
        for name in (*_NUMBERS, "writer", "blocker", "checked", "checked_at", "failure"):
            batch_op.drop_column(name)
