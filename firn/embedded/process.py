"""Child processes that end with this process and write to a log file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from firn.embedded import guard
from firn.embedded.errors import JavaUnsuitable, StartFailed
from firn.embedded.java import Java, NoJava, find_java

STOP_SECONDS = guard.GRACE_SECONDS + 5


def require_java() -> Java:
    """Find a suitable Java; raise JavaUnsuitable with advice if there is none."""
    java = find_java()
    if isinstance(java, NoJava):
        raise JavaUnsuitable(java.reason)
    return java


class GuardedProcess:
    """A command under a guard. It ends with stop(), with this object, or with this process, however that ends."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        cwd: Path,
        keep_open: Sequence[int] = (),
        pipe_stdout: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start the command.

        `keep_open` are descriptors of locks, which the command holds until it ends. With `pipe_stdout`, the caller
        reads its standard output instead of the log. `environment` is added to the environment of this process.
        """
        with os.fdopen(open_private_log(log), "ab") as output:
            # The child has its own session, so that Ctrl-C reaches only this process, which then ends it in order.
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if pipe_stdout else output,
                stderr=output,
                cwd=cwd,
                pass_fds=tuple(keep_open),
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    @property
    def exit_status(self) -> int | None:
        """The exit status; None while it runs."""
        return self._guard.poll()

    def wait_for_end(self, seconds: float) -> int | None:
        """Wait for the end. Returns the exit status, or None after `seconds`."""
        try:
            return self._guard.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    @property
    def stdout(self) -> IO[bytes]:
        """Its standard output, if it was started with `pipe_stdout`."""
        if self._guard.stdout is None:
            raise ValueError("this process writes into its log: it was not started with pipe_stdout")
        return self._guard.stdout

    def stop(self) -> None:
        """End it and wait for the end; kill it after the grace period. A second stop does nothing."""
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        try:
            self._guard.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._guard.kill()  # the command dies with it
            self._guard.wait()
        if self._guard.stdout is not None:
            self._guard.stdout.close()


def open_private_log(log: Path) -> int:
    """Open a log for appending. Only its owner may read it, because the output of programs may hold secrets."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)  # an earlier version created it readable for others
    return descriptor


def read_last_lines(log: Path, count: int = 15) -> str:
    """Read the last lines of a log, from at most its last 16 KiB."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 16_384))
        text = file.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-count:])


def make_early_end_error(name: str, status: int, log: Path) -> StartFailed:
    """The error for a child that ended before it answered."""
    return StartFailed(f"{name} ended with status {status} while starting. The end of {log}:\n{read_last_lines(log)}")
