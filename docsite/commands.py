"""The reference of the command line: a page for each group of commands, from their help."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import groupby
from typing import Any

import typer
from typer.main import get_command

from docsite.markdown import escape, table
from firn.cli.app import app
from firn.cli.commands import COMMANDS

SHARED = frozenset({"json", "server", "token", "catalog", "timeout", "help"})
"""The options of nearly every command; the first page describes them once."""

EXIT_CODES = (
    ("0", "done"),
    ("1", "failed, or a check found something"),
    ("2", "wrong usage"),
    ("3", "the time of `--timeout` ended; the work continues"),
)


def command_pages() -> dict[str, str]:
    """The pages' text by their path: an overview, and a page for each command below `firn`."""
    loaded = {name: entry.load(name) for name, entry in COMMANDS.items()}
    pages = {f"reference/cli/{name}.md": _page(name, command) for name, command in loaded.items()}
    return {"reference/cli/index.md": _overview(loaded["job"].commands["list"]), **pages}


def _overview(example: Any) -> str:
    parts = ["# Command line\n", "`firn COMMAND --help` prints the same text. Tables are named `NAMESPACE.TABLE`.\n"]
    for panel, entries in groupby(COMMANDS.items(), key=lambda item: item[1].panel):
        rows = [(f"[`firn {name}`]({name}.md)", escape(entry.help)) for name, entry in entries]
        parts += [f"## {panel}\n", table(("command", "purpose"), rows)]
    shared = [parameter for parameter in example.params if parameter.name in SHARED]
    parts += ["## Shared options\n", "Nearly every command takes these.\n", _parameters(shared)]
    return "\n".join([*parts, "## Exit codes\n", table(("code", "meaning"), EXIT_CODES)])


def _page(name: str, command: Any) -> str:
    parts = [f"# firn {name}\n"]
    for path, below in _walk(f"firn {name}", command):
        if hasattr(below, "commands"):
            parts.append(f"{_prose(below.help)}\n")
            continue
        if path != f"firn {name}":
            parts.append(f"## {path}\n")
        own = [parameter for parameter in below.params if parameter.name not in SHARED]
        arguments = [parameter for parameter in own if parameter.param_type_name == "argument"]
        usage = " ".join([path, "[OPTIONS]", *(_metavar(argument) for argument in arguments)])
        parts += [f"{_prose(below.help)}\n", f"```text\n{usage}\n```\n", _parameters(own)]
    return "\n".join(parts)


def _walk(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from _walk(f"{path} {name}", below)


def _prose(text: str | None) -> str:
    return "\n\n".join(escape(paragraph) for paragraph in (text or "").replace("\b", "").split("\n\n"))


def _parameters(parameters: list[Any]) -> str:
    rows = [(f"`{_spelling(parameter)}`", escape(parameter.help or "")) for parameter in parameters]
    return table(("option", "meaning"), rows)


def _spelling(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return _metavar(parameter)
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {parameter.metavar or parameter.display_type(_context())}"


@cache
def _context() -> typer.Context:
    """A context that normalizes no words, as all of `firn` does."""
    return typer.Context(get_command(app))


def _metavar(argument: Any) -> str:
    name: str = argument.metavar or argument.name.upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"
