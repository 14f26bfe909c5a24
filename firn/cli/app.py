"""The command `firn`: it runs the commands of firn.cli.commands, and prints errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import orjson
import typer

from firn.cli.commands import LazyCommands
from firn.embedded.errors import EmbeddedError
from firn.errors import FirnError

INTERRUPTED = 130

app = typer.Typer(
    name="firn",
    cls=LazyCommands,
    help="Manage Iceberg and Hive tables that keep themselves healthy. `firn up` starts everything on this machine.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _show_version(requested: bool) -> None:  # noqa: FBT001  # Typer calls it with the option's value alone
    if requested:
        sys.stdout.write(f"firn {version('firn')}\n")
        raise typer.Exit


@app.callback()
def _firn(
    *,
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass


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
