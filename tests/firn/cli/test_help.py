"""Every command, option and argument of `firn` has a help sentence."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest
from typer.main import get_command

from firn.cli.app import app, run
from firn.cli.commands import COMMANDS as ENTRIES


def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The command itself and all commands below it."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(below, f"{path} {name}")


LOADED = {name: entry.load(name) for name, entry in ENTRIES.items()}
COMMANDS = {"firn": get_command(app)}
for word, loaded in LOADED.items():
    COMMANDS |= walk(loaded, f"firn {word}")
SENTENCE = re.compile(r"[A-Z`][^\n]*[.]")


def is_sentence(words: str | None) -> bool:
    return words is not None and SENTENCE.fullmatch(" ".join(words.split("\n\n")[0].split())) is not None


def test_the_commands_are_found() -> None:
    assert {"firn", "firn up", "firn table rewrite", "firn user disable", "firn hive upgrade"} <= set(COMMANDS)


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_the_help_of_firn_says_what_the_command_says(name: str) -> None:
    first, *_ = LOADED[name].help.split("\n\n")
    assert " ".join(first.split()) == ENTRIES[name].help


def test_a_group_has_the_commands_of_all_its_modules() -> None:
    assert {"list", "history", "metrics", "register"} <= set(LOADED["table"].commands)
    assert {"create", "import"} <= set(LOADED["catalog"].commands)
    assert {"upgrade", "convert"} <= set(LOADED["hive"].commands)


def test_help_imports_no_command() -> None:
    program = "import sys; from firn.cli.app import run; run(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert "'firn.cli.commands'" in done.stderr
    for module in ("firn.client", "firn.cli.tables", "httpx", "pydantic"):
        assert f"'{module}'" not in done.stderr


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"firn {version('firn')}\n"


@pytest.mark.parametrize(("typed", "meant"), [(["tabel"], "table"), (["table", "lst"], "list")])
def test_a_misspelt_command_names_the_nearest(typed: list[str], meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(typed) == 2
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_a_command_says_in_a_sentence_what_it_does(path: str) -> None:
    assert is_sentence(COMMANDS[path].help), COMMANDS[path].help


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_every_option_and_argument_has_a_help(path: str) -> None:
    silent = [parameter.name for parameter in COMMANDS[path].params if not getattr(parameter, "help", None)]
    assert silent == []


@pytest.mark.parametrize("words", [None, "", "how many", "How many", "Of the server; 0 takes a free one"])
def test_a_fragment_is_no_sentence(words: str | None) -> None:
    assert not is_sentence(words)
