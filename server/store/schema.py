"""The database's schema: made and upgraded by the migrations, never by hand."""

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
"""PostgreSQL advisory lock: of several servers that start at once, one migrates."""
_ONE_AT_A_TIME = threading.Lock()
"""Alembic keeps what it works on in variables of the process."""


def upgrade_schema(engine: Engine) -> None:
    """Bring the schema up to date; Unavailable when the database cannot be reached, Invalid when it is not ours."""
    config = alembic_config()
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
            f"the database's schema is not one of this version of Firn ({error})",
            hint="start the newer version that has made it, or name another database",
        ) from error


def alembic_config() -> Config:
    """Alembic's configuration, wherever the package is installed."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    return config


def _upgrade(config: Config, connection: Connection) -> None:
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
