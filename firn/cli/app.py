"""The command `firn`: it puts all groups of commands together, and prints errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import orjson
import typer

from firn.cli import (
    audit_log,
    catalogs,
    cdc,
    changes,
    connections,
    consumers,
    convert,
    groups,
    history,
    imports,
    jobs,
    logs,
    metrics,
    namespaces,
    operations,
    optimizers,
    pipeline_graph,
    policies,
    principals,
    processes,
    quarantine,
    roles,
    sql,
    status,
    streams,
    tables,
    tokens,
    writers,
)
from firn.embedded.errors import EmbeddedError
from firn.errors import FirnError

INTERRUPTED = 130

app = typer.Typer(
    name="firn",
    help="Manage Iceberg and Hive tables that keep themselves healthy. `firn up` starts everything on this machine.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(catalogs.app, name="catalog")
app.add_typer(namespaces.app, name="namespace")
app.add_typer(history.app, name="table")  # with those of tables
app.add_typer(convert.app, name="hive")  # with the other commands of Hive tables
app.add_typer(writers.app, name="writer")
app.add_typer(logs.app, name="log")
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(streams.app, name="stream")
app.add_typer(cdc.app, name="cdc")
app.add_typer(pipeline_graph.app, name="pipeline")  # with the commands that need no server
app.add_typer(consumers.app, name="consumer")
app.add_typer(jobs.app, name="job")
app.add_typer(operations.app, name="operation")
app.add_typer(optimizers.app, name="optimizer")
app.add_typer(groups.app, name="group")
app.add_typer(connections.app, name="connection")
app.add_typer(policies.app, name="policy")
app.add_typer(tokens.app, name="token")
app.add_typer(roles.app, name="role")
app.add_typer(principals.users, name="user")
app.add_typer(principals.services, name="service")
app.add_typer(processes.admin, name="admin")
status.add_to(app)
changes.add_to(app)
imports.add_to(catalogs.app, tables.app)
metrics.add_to(tables.app)
audit_log.add_to(app)
roles.add_to(app)
processes.add_to(app)
sql.add_to(app)
logs.add_to(app)


def main() -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. An error is printed with its message and the next step."""
    try:
        exit_code = app(args=list(arguments), prog_name="firn", standalone_mode=True)
    except SystemExit as exit_:
        return int(exit_.code or 0)
    except FirnError as error:
        _print_error(error.message, error.hint, error.request_id, as_json="--json" in arguments)
        return error.exit_code
    except EmbeddedError as error:
        _print_error(str(error), None, None, as_json="--json" in arguments)
        return 1
    except BrokenPipeError:  # the program behind the pipe has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (
        OSError
    ) as error:  # such as a full disk or a directory without write permission: the system's message is clear
        where = f"{error.filename}: " if error.filename else ""
        _print_error(f"{where}{error.strerror or error}", None, None, as_json="--json" in arguments)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return int(exit_code or 0)


def _print_error(message: str, hint: str | None, request_id: str | None, *, as_json: bool) -> None:
    if as_json:
        problem = {"error": {"message": message, "hint": hint, "request_id": request_id}}
        sys.stderr.write(orjson.dumps(problem, option=orjson.OPT_INDENT_2).decode() + "\n")
        return
    sys.stderr.write(f"firn: {message}\n")
    if hint:
        sys.stderr.write(f"      {hint}\n")
    if request_id:
        sys.stderr.write(f"      (request {request_id} in the server's log)\n")
