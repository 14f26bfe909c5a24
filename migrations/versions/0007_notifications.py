"""rules of notifications, and their messages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)
_OPEN = sa.text("ended_at IS NULL")


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "notification_rule",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("kinds", sa.JSON(), nullable=False),
        sa.Column("channel", sa.String(length=32), nullable=False),
        sa.Column("catalog", sa.String(length=255), nullable=True),
        sa.Column("shown_address", sa.Text(), nullable=True),
        sa.Column("sealed_url", sa.Text(), nullable=True),
        sa.Column("sealed_secret", sa.Text(), nullable=True),
        sa.Column("recipients", sa.JSON(), nullable=False),
        sa.Column("resolved", sa.Boolean(), nullable=False),
        sa.Column("silenced_until", _TIME, nullable=True),
        sa.Column("silences", sa.JSON(), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("created_by", sa.String(length=255), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_rule")),
        sa.UniqueConstraint("name", name=op.f("uq_notification_rule_name")),
    )
    op.create_table(
        "notification",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("rule_id", sa.Uuid(), nullable=False),
        sa.Column("rule", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("catalog", sa.String(length=255), nullable=True),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("link", sa.Text(), nullable=False),
        sa.Column("since", _TIME, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("is_resolution", sa.Boolean(), nullable=False),
        sa.Column("ended_at", _TIME, nullable=True),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("next_attempt_at", _TIME, nullable=True),
        sa.Column("sent_at", _TIME, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_notification")),
        sa.UniqueConstraint("id", name=op.f("uq_notification_id")),
    )
    with op.batch_alter_table("notification", schema=None) as batch_op:
        batch_op.create_index("ix_notification_due", ["state", "next_attempt_at"], unique=False)
        batch_op.create_index("ix_notification_rule", ["rule_id", "number"], unique=False)
        batch_op.create_index(
            "uq_notification_open",
            ["rule_id", "kind", "key"],
            unique=True,
            sqlite_where=_OPEN,
            postgresql_where=_OPEN,
        )


def downgrade() -> None:
    """Take it back."""
    op.drop_table("notification")
    op.drop_table("notification_rule")
