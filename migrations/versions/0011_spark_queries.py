"""queries that optimizers answer in Spark."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    with op.batch_alter_table("query") as batch:
        batch.add_column(sa.Column("engine", sa.String(length=32), nullable=False, server_default="instant"))
        batch.add_column(sa.Column("spark_request", sa.JSON(), nullable=True))
        batch.add_column(sa.Column("lease", sa.String(length=64), nullable=True))
        batch.add_column(sa.Column("optimizer", sa.String(length=255), nullable=True))
    with op.batch_alter_table("saved_query") as batch:
        batch.add_column(sa.Column("engine", sa.String(length=32), nullable=False, server_default="instant"))


def downgrade() -> None:
    """Take it back."""
    with op.batch_alter_table("saved_query") as batch:
        batch.drop_column("engine")
    with op.batch_alter_table("query") as batch:
        batch.drop_column("optimizer")
        batch.drop_column("lease")
        batch.drop_column("spark_request")
        batch.drop_column("engine")
