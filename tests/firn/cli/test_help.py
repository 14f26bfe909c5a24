"""Every command, option and argument of `firn` has a help sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from firn.cli.app import app


def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The command itself and all commands below it."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(below, f"{path} {name}")


COMMANDS = dict(walk(typer.main.get_command(app), "firn"))
SENTENCE = re.compile(r"[A-Z`][^\n]*[.]")


def is_sentence(words: str | None) -> bool:
    return words is not None and SENTENCE.fullmatch(" ".join(words.split("\n\n")[0].split())) is not None


def test_the_commands_are_found() -> None:
    assert {"firn", "firn up", "firn table rewrite", "firn user disable", "firn hive upgrade"} <= set(COMMANDS)


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
