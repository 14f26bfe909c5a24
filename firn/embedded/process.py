"""A Java child process that ends when we do, writes into a log file, and leaves nothing behind."""

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
    """The Java to start; raises JavaUnsuitable with what was found and how to get a right one."""
    java = find_java()
    if isinstance(java, NoJava):
        raise JavaUnsuitable(java.reason)
    return java


class GuardedProcess:
    """One command run under a guard: it ends with stop(), with this object, or with this process, however that ends."""

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
        """Start it at once.

        `keep_open` are descriptors, of locks, that are released only when the command is gone.  With `pipe_stdout` its
        standard output comes to us instead of going into the log.  `environment` is added to ours.
        """
        with os.fdopen(private_log(log), "ab") as output:
            # In a session of its own, so that Ctrl-C reaches only us and the child is ended in order.
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
        """None while it runs."""
        return self._guard.poll()

    def ended_within(self, seconds: float) -> int | None:
        """Its status if it has ended by then, else None."""
        try:
            return self._guard.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    @property
    def stdout(self) -> IO[bytes]:
        """Its standard output, where that was asked for."""
        if self._guard.stdout is None:
            raise ValueError("this process writes into its log: it was not started with pipe_stdout")
        return self._guard.stdout

    def stop(self) -> None:
        """End it and wait until it is gone; killed if it takes longer than its grace.  Stopping twice is harmless."""
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        try:
            self._guard.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._guard.kill()  # takes the command with it
            self._guard.wait()
        if self._guard.stdout is not None:
            self._guard.stdout.close()


def private_log(log: Path) -> int:
    """A descriptor to append to a log that only its owner may read: what programs say may hold what nobody else may."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)  # it may be of an earlier version, which left it open to others
    return descriptor


def last_lines(log: Path, count: int = 15) -> str:
    """The end of a log, for a message; reads no more than the file's last 16 KiB."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 16_384))
        text = file.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-count:])


def ended_early(name: str, status: int, log: Path) -> StartFailed:
    """The error for a child that ended before it answered."""
    return StartFailed(f"{name} ended with status {status} while starting. The end of {log}:\n{last_lines(log)}")
