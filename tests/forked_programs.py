"""Programs that tests start by a fork of a process that has imported the server, and the programs that it starts.

The imports take 2 of the 2.5 CPU seconds of a server's start, and nearly all of a builder's. A forked program is a
process like any other: it has arguments, an environment and an id of its own, and tests kill and freeze it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.forkserver
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from server.launch import layer_builder, query_engine

CONTEXT = multiprocessing.get_context("forkserver")
START_BUILDER = layer_builder.start_builder
CONTEXT.set_forkserver_preload(["server.__main__", "optimizer.images.__main__", "optimizer.queries.__main__"])
FORKSERVER = multiprocessing.forkserver._forkserver
PASSED_ON = {"_forkserver_address", "_forkserver_authkey"}
"""By these a program has its own programs forked by the process that forked it. Python would start another one."""


class ForkedProgram:
    """`python -m MODULE ARGUMENTS…`, with the methods of `subprocess.Popen` that tests need."""

    def __init__(self, module: str, *arguments: str, environment: Mapping[str, str], log: Path) -> None:
        """Start it. It appends to `log` on standard error; `stdout` reads its standard output."""
        reader, writer = CONTEXT.Pipe(duplex=False)
        with reader, writer:
            FORKSERVER.ensure_running()
            inherited = {name: value for name, value in vars(FORKSERVER).items() if name in PASSED_ON}
            self._process = CONTEXT.Process(
                target=_run, args=(module, arguments, dict(environment), log, writer, inherited), daemon=True
            )
            self._process.start()
            self.stdout = os.fdopen(os.dup(reader.fileno()), encoding="utf-8")
        assert self._process.pid is not None
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stdout.close()
        self._process.join()

    @property
    def returncode(self) -> int | None:
        """The exit code, or the negative number of the signal that ended the program; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the `returncode`."""
        return self._process.exitcode

    def wait(self, seconds: float) -> int:
        """Wait for the end and return the `returncode`; raises TimeoutExpired after `seconds`."""
        self._process.join(seconds)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, seconds)
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the program has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask the program to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the program at once."""
        self.send_signal(signal.SIGKILL)


def _run(
    module: str,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    log: Path,
    output: Connection,
    forkserver: dict[str, Any],
) -> None:
    errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output.fileno(), 1)
    os.dup2(errors, 2)
    os.close(errors)
    output.close()
    os.environ.clear()
    os.environ.update(environment)
    layer_builder.start_builder = start_builder
    vars(query_engine)["start_builder"] = start_builder
    vars(FORKSERVER).update(forkserver, ensure_running=lambda: None)  # else a builder of images would wait for another
    multiprocessing.current_process().daemon = False  # it may start a process of its own
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


class ForkedBuilder:
    """`python -m MODULE` without arguments, with the methods of `subprocess.Popen` that the server calls."""

    def __init__(self, module: str) -> None:
        """Start it in a session of its own, like the real one."""
        tasks, own_tasks = CONTEXT.Pipe(duplex=False)
        own_messages, messages = CONTEXT.Pipe(duplex=False)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FIRN_")}
        with tasks, messages, own_tasks, own_messages:
            self._process = CONTEXT.Process(target=_build, args=(module, environment, tasks, messages), daemon=True)
            self._process.start()
            self.stdin = os.fdopen(os.dup(own_tasks.fileno()), "wb")
            self.stdout = os.fdopen(os.dup(own_messages.fileno()), "rb")

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.exitcode

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def wait(self) -> int | None:
        """Wait for the end and return the exit code."""
        self._process.join()
        return self._process.exitcode

    def communicate(self) -> None:
        """Wait for the end and close the pipes."""
        self.wait()
        for pipe in (self.stdin, self.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def start_builder(command: Sequence[str]) -> Any:
    """In place of `layer_builder.start_builder`: a forked program, unless the command is another one."""
    is_known = command in (layer_builder.COMMAND, query_engine.COMMAND)
    return ForkedBuilder(command[-1]) if is_known else START_BUILDER(command)


def _build(module: str, environment: dict[str, str], tasks: Connection, messages: Connection) -> None:
    os.setsid()
    os.dup2(tasks.fileno(), 0)
    os.dup2(messages.fileno(), 1)
    tasks.close()
    messages.close()
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module]
    sys.stdin, sys.stdout = open(0, encoding="utf-8"), open(1, "w", encoding="utf-8")  # noqa: SIM115 -- till it ends
    runpy.run_module(module, run_name="__main__", alter_sys=True)
