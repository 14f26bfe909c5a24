"""Alembic's entry point: uses the caller's open connection, or FIRN_DATABASE_URL on the command line."""

from __future__ import annotations

import os
from typing import Literal

from alembic import context
from sqlalchemy import Connection

# The schema includes their tables.
from server.store import (  # noqa: F401
    access_rows,
    consumer_rows,
    hive_rows,
    job_rows,
    lineage_rows,
    notification_rows,
    pipeline_rows,
    query_rows,
    search_rows,
    stream_rows,
    trend_rows,
)
from server.store.rows import Row, UtcDateTime
from server.store.search_rows import is_described
from server.store.session import open_engine


def _render_type(kind: str, item: object, _autogen: object) -> str | Literal[False]:
    """Render the database's types in migrations instead of classes, which may move."""
    return "sa.DateTime(timezone=True)" if kind == "type" and isinstance(item, UtcDateTime) else False


def _run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Row.metadata,
        render_as_batch=True,
        compare_type=True,
        render_item=_render_type,
        include_object=is_described,
    )
    with context.begin_transaction():
        context.run_migrations()


_open_connection: Connection | None = context.config.attributes.get("connection")
if _open_connection is not None:
    _run(_open_connection)
else:
    with open_engine(os.environ["FIRN_DATABASE_URL"]).connect() as _connection:
        _run(_connection)
