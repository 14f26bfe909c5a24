"""The schema of the database, which only the migrations create and upgrade."""

from __future__ import annotations

import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import OperationalError

import migrations
from catalog.errors import Invalid, Unavailable

_LOCK = 7_203_114_529
"""The key of the PostgreSQL advisory lock that lets only one of several starting servers migrate."""
_ONE_AT_A_TIME = threading.Lock()
"""Alembic keeps its state in global variables of the process."""


def upgrade_schema(engine: Engine) -> None:
    """Upgrade the schema; Unavailable when the database cannot be opened, Invalid for a schema of another version."""
    config = build_alembic_config()
    try:
        with _ONE_AT_A_TIME, engine.execution_options(firn_writes=True).begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            _upgrade(config, connection)
    except (OSError, OperationalError) as error:
        reason = str(error).partition("\n")[0]
        raise Unavailable(f"the database cannot be opened: {reason}", hint="check FIRN_DATABASE_URL") from error
    except CommandError as error:
        raise Invalid(
            f"the schema of the database does not belong to this version of Firn ({error})",
            hint="start the newer version that created it, or use another database",
        ) from error


def build_alembic_config() -> Config:
    """Build Alembic's configuration for the installed package."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    return config


def _upgrade(config: Config, connection: Connection) -> None:
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
