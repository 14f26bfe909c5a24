"""chunks of backfills beside live runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    with op.batch_alter_table("pipeline_backfill") as batch:
        batch.add_column(sa.Column("beside", sa.BigInteger(), nullable=True))
        batch.add_column(sa.Column("active_since", sa.DateTime(timezone=True), nullable=True))
        batch.add_column(sa.Column("waits_for", sa.String(length=64), nullable=True))


def downgrade() -> None:
    """Take it back."""
    with op.batch_alter_table("pipeline_backfill") as batch:
        batch.drop_column("waits_for")
        batch.drop_column("active_since")
        batch.drop_column("beside")
