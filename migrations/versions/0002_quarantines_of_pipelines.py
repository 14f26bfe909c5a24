"""Held runs have the commit on the quarantine of their table."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    with op.batch_alter_table("pipeline_held", schema=None) as batch_op:
        batch_op.add_column(sa.Column("quarantine_id", sa.Uuid(), nullable=True))
        batch_op.add_column(sa.Column("quarantined", sa.JSON(), nullable=True))
        batch_op.create_index("ix_pipeline_held_quarantine", ["quarantine_id"], unique=False)


def downgrade() -> None:
    """Take it back."""
    with op.batch_alter_table("pipeline_held", schema=None) as batch_op:
        batch_op.drop_index("ix_pipeline_held_quarantine")
        batch_op.drop_column("quarantined")
        batch_op.drop_column("quarantine_id")
