"""lineage of tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_VIEWS = sa.text("kind = 'view'")


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "lineage_node",
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("within", sa.Text(), nullable=False),
        sa.Column("namespace", sa.String(length=1024), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("relation_id", sa.Uuid(), nullable=True),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_lineage_node")),
    )
    op.create_table(
        "lineage_edge",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("target", sa.String(length=32), nullable=False),
        sa.Column("origin", sa.String(length=32), nullable=False),
        sa.Column("definition_id", sa.Uuid(), nullable=False),
        sa.Column("first_seen", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_seen", sa.DateTime(timezone=True), nullable=False),
        sa.Column("principal", sa.String(length=255), nullable=True),
        sa.Column("columns", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lineage_edge")),
        sa.UniqueConstraint(
            "source",
            "target",
            "origin",
            "definition_id",
            name=op.f("uq_lineage_edge_source_target_origin_definition_id"),
        ),
    )
    op.create_index("ix_lineage_edge_target", "lineage_edge", ["target", "last_seen"])
    op.create_index("ix_lineage_edge_source", "lineage_edge", ["source", "last_seen"])
    op.create_index("ix_lineage_edge_definition", "lineage_edge", ["definition_id"])
    op.create_index("ix_lineage_edge_sender", "lineage_edge", ["origin", "principal"])
    op.create_index("ix_lineage_edge_age", "lineage_edge", ["last_seen"])
    op.create_table(
        "lineage_definition",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("retry_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lineage_definition")),
    )
    op.create_table(
        "lineage_position",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_lineage_position")),
    )
    op.create_index("ix_relation_view", "relation", ["id"], sqlite_where=_VIEWS, postgresql_where=_VIEWS)


def downgrade() -> None:
    """Take it back."""
    op.drop_index("ix_relation_view", "relation")
    op.drop_table("lineage_position")
    op.drop_table("lineage_definition")
    op.drop_table("lineage_edge")
    op.drop_table("lineage_node")
