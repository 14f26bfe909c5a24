"""Runs commands of `firn` against a server, and `firn serve` in its own process."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from firn.cli import app


@dataclass(frozen=True)
class CommandOutput:
    """The exit code and the output of one command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Command:
    """Runs commands against one server, with one user's token."""

    url: str
    token: str | None = None

    def __call__(self, *arguments: str) -> CommandOutput:
        """Run a command in this process. `apart` runs commands that start or replace processes."""
        out, err = io.StringIO(), io.StringIO()
        env = {"FIRN_SERVER": self.url, **({} if self.token is None else {"FIRN_TOKEN": self.token})}
        with patch.dict(os.environ, env), redirect_stdout(out), redirect_stderr(err):
            code = app.run(arguments)
        return CommandOutput(code, out.getvalue(), err.getvalue())

    def apart(self, *arguments: str, env: Mapping[str, str] | None = None) -> CommandOutput:
        """Run a command in its own process; fail if it prints a traceback or takes longer than 120 s."""
        done = subprocess.run(
            [sys.executable, "-m", "firn.cli", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, "FIRN_SERVER": self.url, **(env or {})},
        )
        assert "Traceback" not in done.stderr, done.stderr
        return CommandOutput(done.returncode, done.stdout, done.stderr)


@contextmanager
def serving(data_dir: Path, *flags: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `firn serve` in its own process; give its address and the process once the server answers."""
    command = [sys.executable, "-m", "firn.cli", "serve", "--data-dir", str(data_dir), "--port", "0", *flags]
    env = {**os.environ, "FIRN_BACKGROUND__PLAN_SECONDS": "3600"}
    with (
        (data_dir.parent / f"{data_dir.name}.log").open("w", encoding="utf-8") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=env) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            match = re.fullmatch(r"Firn \S+ answers at (http://127\.0\.0\.1:\d+) \(data in .*\)\n", line)
            assert match is not None, line
            yield match.group(1), process
        finally:
            process.terminate()
            process.wait(30)


def a_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
