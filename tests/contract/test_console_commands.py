"""The console shows commands of a terminal in its dialogs: `firn` has each of them, with these options.

The test reads the calls of `firn(…)` in the console's code, so it fails when somebody renames a command or an option.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from firn.cli.commands import COMMANDS

CONSOLE = Path(__file__).parents[2] / "web" / "src"
PAIRS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Shown:
    """A command that a dialog shows."""

    where: str
    words: Sequence[str]
    names: int | None
    """None if the number of names depends on something."""
    options: Sequence[str]

    def __str__(self) -> str:
        return f"{self.where} {' '.join(self.words)}"


def split_at_commas(text: str) -> list[str]:
    """Split at the commas outside of brackets, and leave out empty parts."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in PAIRS) - (letter in PAIRS.values())
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def within_brackets(text: str, start: int) -> str:
    """The text inside the bracket that opens at this place."""
    depth = 0
    for end in range(start, len(text)):
        depth += (text[end] in PAIRS) - (text[end] in PAIRS.values())
        if depth == 0:
            return text[start + 1 : end]
    raise ValueError(text[start : start + 80])


def read_options(argument: str, code: str) -> list[str]:
    """The keys of an object, written in place or as a constant of the same file."""
    if not argument.startswith("{"):
        place = code.index(f"const {argument} = {{")
        argument = "{" + within_brackets(code, code.index("{", place)) + "}"
    return [part.split(":")[0].strip().strip("'") for part in split_at_commas(argument[1:-1])]


def read_calls() -> Iterator[Shown]:
    """Every command of the console, apart from tests."""
    for path in sorted(CONSOLE.rglob("*.ts*")):
        if path.name in {"terminal.ts", "terminal.test.ts"}:
            continue
        code = path.read_text()
        for call in re.finditer(r"\bfirn\(", code):
            command, names, *options = split_at_commas(within_brackets(code, call.end() - 1))
            yield Shown(
                where=path.relative_to(CONSOLE).as_posix(),
                words=command.strip("'").split(),
                names=len(split_at_commas(names[1:-1])) if names.startswith("[") else None,
                options=read_options(options[0], code) if options else [],
            )


SHOWN = list(read_calls())


def test_the_console_shows_commands() -> None:
    assert len(SHOWN) >= 30
    assert not [shown for shown in SHOWN if not re.fullmatch(r"[a-z -]+", " ".join(shown.words))]


@pytest.mark.parametrize("shown", SHOWN, ids=str)
def test_firn_has_the_command(shown: Shown) -> None:
    first, *rest = shown.words
    command: Any = COMMANDS[first].load(first)
    for word in rest:
        command = command.commands[word]
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {f"--{name}" for name in shown.options} - known == set()
    if shown.names is not None:
        takes_any_number = any(argument.nargs == -1 for argument in arguments)
        assert sum(argument.required for argument in arguments) <= shown.names
        assert shown.names <= len(arguments) or takes_any_number
