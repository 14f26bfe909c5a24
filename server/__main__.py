"""`python -m server`: one server process. It prints one line when it answers and stops cleanly on SIGTERM."""

from __future__ import annotations

import argparse
import fcntl
import os
import socket
import sys
from pathlib import Path
from typing import IO

import uvicorn
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError

from catalog.errors import CatalogError
from server import logs
from server.app import VERSION, build_background, build_services, create_app, ensure_default_catalog, open_database
from server.settings import Settings, load_settings

WRONG_USAGE = 2


class CannotStart(Exception):
    """Why this server does not start, and what to do."""


def main(argv: list[str] | None = None) -> int:
    """Run until told to stop; the exit code."""
    try:
        settings = _settings(argv)
        logs.configure(settings.log_level)
        return _serve(settings)
    except CannotStart as error:
        print(f"firn: {error}", file=sys.stderr)
        return WRONG_USAGE
    except (CatalogError, DBAPIError) as error:
        print(f"firn: cannot start: {str(error).partition(chr(10))[0]}", file=sys.stderr)
        return 1


def _settings(argv: list[str] | None) -> Settings:
    parser = argparse.ArgumentParser(prog="firn serve", description="The Firn server.")
    parser.add_argument("--data-dir", type=Path, help="where database and warehouse go (default: firn-data)")
    parser.add_argument("--port", type=int, help="port to listen on (default: 8630; 0 takes a free one)")
    parser.add_argument("--config", type=Path, help="TOML file with settings, see docs/settings.md")
    parser.add_argument("--metastore", help="metastore of the catalog `lake`, thrift://HOST:PORT")
    parser.add_argument("--database-url", help="SQLAlchemy URL of the database (default: SQLite in the data directory)")
    given = parser.parse_args(argv)
    if given.config is not None and not given.config.is_file():
        raise CannotStart(f"there is no settings file {given.config}")
    flags = {key: value for key, value in vars(given).items() if key != "config"}
    try:
        return load_settings(given.config, **flags)
    except ValidationError as error:
        lines = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise CannotStart("these settings do not fit: " + "; ".join(lines)) from error


def _serve(settings: Settings) -> int:
    listener = _listen(settings)
    lock = _lock_data_dir(settings)
    services = build_services(settings, open_database(settings))
    ensure_default_catalog(services, settings)
    host, port = listener.getsockname()[:2]

    def ready() -> None:
        print(f"Firn {VERSION} answers at http://{host}:{port} (data in {settings.data_dir.absolute()})", flush=True)

    app = create_app(settings, services, build_background(settings, services), ready)
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=10, lifespan="on")
    uvicorn.Server(config).run(sockets=[listener])
    lock.close()
    return 0


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        raise CannotStart(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; "
            "stop what listens there, or choose another port with --port"
        ) from error
    listener.listen(2048)
    return listener


def _lock_data_dir(settings: Settings) -> IO[str]:
    """Two servers on one SQLite file would each cache and plan on their own."""
    path = settings.data_dir.absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = (path / "server.lock").open("a+", encoding="ascii")
    except OSError as error:
        raise CannotStart(f"cannot use the data directory {path}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        raise CannotStart(
            f"another Firn server (pid {lock.read().strip() or 'unknown'}) uses {path}; stop it, choose another "
            "--data-dir, or set a PostgreSQL FIRN_DATABASE_URL to run several servers"
        ) from error
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


if __name__ == "__main__":
    sys.exit(main())
