"""indexes that serve the orders and filters of the list of Hive tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_NUMBERS = ("bytes", "rows", "partitions", "last_write")
_TEXTS = ("format", "writer")
_KEY = ("database", "name")


def upgrade() -> None:
    """Make the change."""
    for name in _NUMBERS:
        op.drop_index(f"ix_hive_table_{name}", "hive_table")
    for name in (*_NUMBERS, *_TEXTS):
        op.create_index(f"ix_hive_table_{name}", "hive_table", ["catalog", name, *_KEY])
    failed = sa.text("failure IS NOT NULL")
    op.create_index(
        "ix_hive_table_failed", "hive_table", ["catalog", *_KEY], sqlite_where=failed, postgresql_where=failed
    )
    op.create_index(
        "ix_hive_link_out_of_sync",
        "hive_link",
        ["relation_id"],
        sqlite_where=sa.text("out_of_sync = 1"),
        postgresql_where=sa.text("out_of_sync"),
    )
    op.drop_index("ix_operation_status", "operation")
    op.create_index("ix_operation_status", "operation", ["status", "catalog", "kind"])


def downgrade() -> None:
    """Take it back."""
    op.drop_index("ix_operation_status", "operation")
    op.create_index("ix_operation_status", "operation", ["status"])
    op.drop_index("ix_hive_link_out_of_sync", "hive_link")
    op.drop_index("ix_hive_table_failed", "hive_table")
    for name in (*_NUMBERS, *_TEXTS):
        op.drop_index(f"ix_hive_table_{name}", "hive_table")
    for name in _NUMBERS:
        op.create_index(f"ix_hive_table_{name}", "hive_table", ["catalog", name])
