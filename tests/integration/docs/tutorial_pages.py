"""Runs a page of docs/tutorials/ as its reader does: commands, programs, statements of Hive, and what each shows."""

from __future__ import annotations

import io
import re
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.command_line import Command
from tests.docs.blocks import DOCS, Block, blocks
from tests.hive_engine import HiveEngine

TUTORIALS: Final = sorted((DOCS / "tutorials").glob("*.md"))
LONGEST_WAIT_SECONDS = 300
STARTED_BY_THE_TEST: Final = ("firn up", "spark-sql")
READS: Final = re.compile(
    r"firn (sql|status|admin check|job list|stream list|log show|quarantine list|hive list"
    r"|table (show|health|explain|history|list)) ?"
)
"""Commands that change nothing: a reader repeats them until they show what the page says."""


@dataclass
class Reader:
    """One reader with a terminal, a Python prompt and a prompt of Hive's."""

    firn: Command
    addresses: dict[str, str]
    """The addresses of the pages, and those of the test."""
    hive: Callable[[], HiveEngine]
    names: dict[str, Any] = field(default_factory=dict)

    def follow(self, page: Path) -> None:
        """Do every step of a page; fail where a step does not show what the page says."""
        steps = [*blocks(page.read_text("utf-8"))]
        for step, after in zip(steps, [*steps[1:], None], strict=True):
            if step.language == "text":
                continue
            shown = after.text if after is not None and after.language == "text" else ""
            self._take(step, shown, f"{page.name}:{step.line}")

    def _take(self, step: Block, shown: str, where: str) -> None:
        give_up = time.monotonic() + LONGEST_WAIT_SECONDS
        text, shown = self._place(step.text), self._place(shown)
        output = self._run(step.language, text, where)
        while missing := find_missing(shown, output):
            may_repeat = step.language == "bash" and all(READS.match(line) for line in split_lines(text))
            assert may_repeat, f"{where} did not show {missing!r}:\n{output}"
            assert time.monotonic() < give_up, f"{where} never showed {missing!r}:\n{output}"
            time.sleep(0.5)
            output = self._run(step.language, text, where)

    def _place(self, text: str) -> str:
        for own, real in self.addresses.items():
            text = text.replace(own, real)
        return text

    def _run(self, language: str, text: str, where: str) -> str:
        match language:
            case "bash":
                return "".join(self._type(line, where) for line in split_lines(text))
            case "python":
                printed = io.StringIO()
                with redirect_stdout(printed):
                    exec(compile(text, where, "exec"), self.names)
                return printed.getvalue()
            case "sql":
                statements = [part.strip() for part in text.split(";") if part.strip()]
                rows = self.hive().sql(*statements)
                return "\n".join("\t".join(map(str, row)) for row in rows)
        raise AssertionError(f"{where}: nobody runs {language}")

    def _type(self, line: str, where: str) -> str:
        if line.startswith(STARTED_BY_THE_TEST):
            return ""
        first, *words = shlex.split(line, comments=True)
        if first == "cat":
            return Path(words[0]).read_text("utf-8")
        assert first == "firn", f"{where}: {line}"
        answer = self.firn(*words)
        assert answer.code == 0, f"{where}: {line}\n{answer.out}{answer.err}"
        return answer.out


def split_lines(text: str) -> list[str]:
    """The lines of a terminal, without comments; those that end with a backslash go on."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def find_missing(shown: str, output: str) -> str | None:
    """The first line of a page that a command did not print; `…` stands for anything, also for several lines."""
    printed = [" ".join(line.split()) for line in output.splitlines()]
    place = 0
    for pattern in _patterns(shown):
        while place < len(printed) and not pattern.fullmatch(printed[place]):
            place += 1
        if place == len(printed):
            return pattern.pattern
        place += 1
    return None


def _patterns(shown: str) -> Iterator[re.Pattern[str]]:
    for line in shown.splitlines():
        words = " ".join(line.split())
        if words.strip("…─ "):
            parts = [re.escape(part.strip()) for part in words.split("…")]
            yield re.compile(r"\s*.*\s*".join(parts))
