"""rules of table events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    with op.batch_alter_table("notification_rule") as batch:
        batch.add_column(sa.Column("tables", sa.JSON(), nullable=True))
        batch.add_column(sa.Column("events_until", sa.BigInteger(), nullable=True))
        batch.add_column(sa.Column("jobs_until", sa.DateTime(timezone=True), nullable=True))
    with op.batch_alter_table("notification") as batch:
        batch.add_column(sa.Column("data", sa.JSON(), nullable=True))
        batch.create_index("ix_notification_waiting", ["rule_id", "state", "number"], unique=False)


def downgrade() -> None:
    """Take it back."""
    with op.batch_alter_table("notification") as batch:
        batch.drop_index("ix_notification_waiting")
        batch.drop_column("data")
    with op.batch_alter_table("notification_rule") as batch:
        batch.drop_column("jobs_until")
        batch.drop_column("events_until")
        batch.drop_column("tables")
