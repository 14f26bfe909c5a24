"""the state of a pipeline's table at which its rows are exact."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    with op.batch_alter_table("pipeline_checkpoint") as batch:
        batch.add_column(sa.Column("exact_at", sa.String(length=100), nullable=True))


def downgrade() -> None:
    """Take it back."""
    with op.batch_alter_table("pipeline_checkpoint") as batch:
        batch.drop_column("exact_at")
