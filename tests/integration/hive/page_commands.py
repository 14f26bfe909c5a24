"""The commands of a page, typed one after the other as an operator types them, with the addresses of a test."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.waiting import wait_for

FIRN = Path(sys.executable).with_name("firn")
_COMMAND_SECONDS = 280


@dataclass
class Terminal:
    """A shell's variables, and the processes that run in its background."""

    log: Path
    variables: dict[str, str]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes, the last one first."""
        for process in reversed(self.running.values()):
            process.terminate()
            process.wait(60)

    def type(self, line: str) -> str:
        """Run a line, and return what it prints; a line that ends in `&` runs on. Fails if the command does."""
        words = shlex.split(line, comments=True)
        if words[0] == "export":
            self.variables |= dict([words[1].split("=", 1)])
            return ""
        assert words[0] == "firn", line
        command = [str(FIRN), *words[1:]]
        if words[-1] != "&":
            return self._run(command)
        with self.log.open("ab") as log:
            process = subprocess.Popen(command[:-1], env=self._environment(), stdout=log, stderr=log)
        self.running[words[1]] = process
        return ""

    def _run(self, command: Sequence[str]) -> str:
        done = subprocess.run(
            command, env=self._environment(), capture_output=True, text=True, check=False, timeout=_COMMAND_SECONDS
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "COLUMNS": "200", **self.variables}

    def wait_until_printed(self, text: str) -> None:
        """Wait until a process in the background has printed something."""
        wait_for(lambda: text in self.log.read_text(encoding="utf-8"), text)
