"""`python -m server`: one server process. It prints one line when it answers and stops cleanly on SIGTERM."""

from __future__ import annotations

from firn import garbage_collection  # first: it makes the other imports faster

# isort: split
import argparse
import fcntl
import logging
import os
import socket
import stat
import sys
import tomllib
from pathlib import Path
from typing import IO

import uvicorn
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError

from catalog.access.privileges import RoleName
from catalog.errors import CatalogError, Invalid
from server import logs, port
from server.adapters import open_database
from server.app import VERSION, create_app
from server.background.registry import build_background
from server.component_settings import make_tickets
from server.container import build_access, build_services, ensure_default_catalog
from server.hadoop import apply_settings
from server.kerberos.errors import KerberosError
from server.read_timeouts import TimedProtocol
from server.settings import Settings, load_settings
from server.workers import serve_with_workers

garbage_collection.resume()
WRONG_USAGE = 2
log = logging.getLogger(__name__)


class CannotStart(Exception):
    """The reason why the server cannot start, and what to do."""


def main(argv: list[str] | None = None) -> int:
    """Run the server until a signal; returns the exit code."""
    arguments = _arguments(argv)
    try:
        settings = _settings(arguments)
    except CannotStart as error:
        print(f"firn: {error}", file=sys.stderr)
        return WRONG_USAGE
    logs.configure(settings.log_level)
    apply_settings(settings.hadoop.conf_dir, settings.hadoop.user)
    try:
        if (tickets := make_tickets(settings)) is not None:
            tickets.prepare()
        return _print_token(settings, arguments) if _needs_token(arguments) else _serve(settings)
    except (CannotStart, KerberosError) as error:
        print(f"firn: {error}", file=sys.stderr)
        return WRONG_USAGE
    except CatalogError as error:
        _tell(error.message, error.hint)
        return WRONG_USAGE if isinstance(error, Invalid) else 1
    except DBAPIError as error:
        _tell(str(error).partition("\n")[0], f"the database is {make_url(settings.resolved_database_url)!r}")
        return 1


def _tell(reason: str, hint: str | None) -> None:
    print(f"firn: cannot start: {reason}", file=sys.stderr)
    if hint:
        print(f"      {hint}", file=sys.stderr)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="firn serve", description="The Firn server.")
    parser.add_argument("--data-dir", type=Path, help="where database and warehouse go (default: firn-data)")
    parser.add_argument("--port", type=int, help="port to listen on (default: 8630; 0 takes a free one)")
    parser.add_argument("--workers", type=int, help="processes that answer (default: 1)")
    parser.add_argument("--config", type=Path, help="TOML file with settings, see docs/settings.md")
    parser.add_argument("--metastore", help="metastore of the catalog `lake`, thrift://HOST:PORT")
    parser.add_argument("--database-url", help="SQLAlchemy URL of the database (default: SQLite in the data directory)")
    once = parser.add_argument_group("access, for who has the data directory: print a token and end")
    which = once.add_mutually_exclusive_group()
    which.add_argument(
        "--first-admin-token", action="store_true", help="of the first administrator; none if there is one"
    )
    which.add_argument("--reset-admin-token", action="store_true", help="of `admin`, whose other tokens end")
    which.add_argument("--token-for", metavar="SERVICE", help="of a service, made if need be, whose other tokens end")
    once.add_argument("--role", help="with --token-for: a role that the service is given")
    return parser.parse_args(argv)


def _settings(arguments: argparse.Namespace) -> Settings:
    if arguments.config is not None and not arguments.config.is_file():
        raise CannotStart(f"the settings file {arguments.config} does not exist")
    named = ("data_dir", "port", "workers", "metastore", "database_url")
    flags = {name: getattr(arguments, name) for name in named}
    try:
        return load_settings(arguments.config, **flags)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise CannotStart(f"the settings file {arguments.config} cannot be read: {error}") from error
    except ValidationError as error:
        lines = (f"{'.'.join(map(str, problem['loc']))}: {_explain(problem)}" for problem in error.errors())
        raise CannotStart("these settings do not fit: " + "; ".join(lines)) from error


def _explain(problem: ErrorDetails) -> str:
    if problem["type"] == "extra_forbidden":
        return "there is no such setting, docs/settings.md lists them"
    return problem["msg"].removeprefix("Value error, ")


def _needs_token(arguments: argparse.Namespace) -> bool:
    return bool(arguments.first_admin_token or arguments.reset_admin_token or arguments.token_for)


def _print_token(settings: Settings, arguments: argparse.Namespace) -> int:
    """Print only a new token, which a running server accepts at once."""
    directory = build_access(settings.access, open_database(settings)).principals
    if arguments.first_admin_token:
        secret = directory.create_first_admin()
    elif arguments.reset_admin_token:
        secret = directory.create_admin_token()
    else:
        secret = directory.create_service_token(
            arguments.token_for, None if arguments.role is None else RoleName(arguments.role)
        )
    if secret is not None:
        print(secret.text)
    return 0


def _serve(settings: Settings) -> int:
    listener = _listen(settings)
    settings = settings.model_copy(update={"port": listener.getsockname()[1]})  # clients cannot use port 0
    lock = _lock_data_dir(settings)
    services = build_services(settings, open_database(settings))
    ensure_default_catalog(services, settings)
    services.planner_loop.plan_unassessed()
    first_admin = services.access.principals.create_first_admin() if settings.access.enabled else None
    host, number = listener.getsockname()[:2]
    announcement = f"Firn {VERSION} answers at http://{host}:{number} (data in {settings.data_dir.absolute()})"
    if first_admin is not None:
        announcement = f"The first administrator's token, shown this once: {first_admin.text}\n{announcement}"
    if settings.workers > 1:
        serve_with_workers(settings, listener, announcement)
    else:
        background = build_background(settings, services)
        app = create_app(settings, services, background, lambda: print(announcement, flush=True))
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=10,
            lifespan="on",
            http=TimedProtocol,
            ws="none",
        )
        uvicorn.Server(config).run(sockets=[listener])
    lock.close()
    return 0


def _listen(settings: Settings) -> socket.socket:
    take = port.share if settings.workers > 1 else port.listen
    try:
        return take(settings.host, settings.port)
    except OSError as error:
        raise CannotStart(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; "
            "stop what listens there, or choose another port with --port"
        ) from error


def _lock_data_dir(settings: Settings) -> IO[str]:
    """Two servers on one SQLite file would each cache and plan on their own.

    Missing parents are not made: a mistyped path would start an empty server instead of the one that was meant.
    """
    path = settings.data_dir.absolute()
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path / "server.lock", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        lock = os.fdopen(descriptor, "a+", encoding="ascii")
    except FileNotFoundError as error:
        raise CannotStart(f"cannot make {path}: {path.parent} does not exist; correct the path, or make it") from error
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
    _warn_of_others(path)
    try:
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
    except OSError as error:
        raise CannotStart(f"cannot write into the data directory {path}: {error.strerror}") from error
    return lock


def _warn_of_others(data_dir: Path) -> None:
    """Warn instead of a change: engines that run as other users may read a warehouse in this directory."""
    mode = stat.S_IMODE(data_dir.stat().st_mode)
    if mode & 0o077:
        log.warning(
            "others than the server's user may enter the data directory, which holds tables and a key; "
            "close it with chmod 700, or keep the warehouse elsewhere if they have to read it",
            extra={"directory": str(data_dir), "mode": f"{mode:03o}"},
        )


if __name__ == "__main__":
    sys.exit(main())
