"""samples of trends, and the rows and small files of assessed tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_COUNTS = ("rows", "small_files")
_STORE = "SELECT keyed_table.base_id FROM keyed_table WHERE keyed_table.relation_id = table_status.relation_id"
_ROWS = f"""
UPDATE table_status SET rows = coalesce((
    SELECT CASE WHEN records > position_deletes THEN records - position_deletes ELSE 0 END FROM table_stats
    WHERE table_stats.relation_id = coalesce(({_STORE}), table_status.relation_id)
), 0)
"""  # noqa: S608 (constants)


def upgrade() -> None:
    """Make the change. Small files follow with the next assessment of each table."""
    with op.batch_alter_table("table_status", schema=None) as batch_op:
        for name in _COUNTS:
            batch_op.add_column(sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    op.execute(_ROWS)
    with op.batch_alter_table("table_status", schema=None) as batch_op:
        for name in _COUNTS:
            batch_op.alter_column(name, server_default=None)
    op.create_table(
        "table_trend",
        sa.Column("relation_id", sa.Uuid(), nullable=False),
        sa.Column("unpublished_since", sa.BigInteger(), nullable=True),
        sa.Column("samples", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("relation_id", name=op.f("pk_table_trend")),
    )
    condition = sa.text("unpublished_since IS NOT NULL")
    op.create_index(
        "ix_table_trend_unpublished",
        "table_trend",
        ["relation_id", "unpublished_since"],
        sqlite_where=condition,
        postgresql_where=condition,
    )
    op.create_table(
        "scope_trend",
        sa.Column("catalog", sa.String(length=255), nullable=False),
        sa.Column("namespace", sa.String(length=1024), nullable=False),
        sa.Column("newest", sa.JSON(), nullable=False),
        sa.Column("samples", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("catalog", "namespace", name=op.f("pk_scope_trend")),
    )
    op.create_table(
        "trend_position",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("position", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_trend_position")),
    )


def downgrade() -> None:
    """Take it back."""
    op.drop_table("trend_position")
    op.drop_table("scope_trend")
    op.drop_table("table_trend")
    with op.batch_alter_table("table_status", schema=None) as batch_op:
        for name in _COUNTS:
            batch_op.drop_column(name)
