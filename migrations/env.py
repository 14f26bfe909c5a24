"""Alembic's entry: run on a connection that the caller has opened, or on FIRN_DATABASE_URL from the command line."""

from __future__ import annotations

import os
from typing import Literal

from alembic import context
from sqlalchemy import Connection

from server.store import access_rows, job_rows  # noqa: F401 (their tables are part of the schema)
from server.store.rows import Row, UtcDateTime
from server.store.session import open_engine


def _plain_types(kind: str, item: object, _autogen: object) -> str | Literal[False]:
    """Migrations name the database's types, not classes that may move."""
    return "sa.DateTime(timezone=True)" if kind == "type" and isinstance(item, UtcDateTime) else False


def _run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Row.metadata,
        render_as_batch=True,
        compare_type=True,
        render_item=_plain_types,
    )
    with context.begin_transaction():
        context.run_migrations()


_given: Connection | None = context.config.attributes.get("connection")
if _given is not None:
    _run(_given)
else:
    with open_engine(os.environ["FIRN_DATABASE_URL"]).connect() as _connection:
        _run(_connection)
