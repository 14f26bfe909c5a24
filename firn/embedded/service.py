"""A program in Java that Firn starts on this machine: one process, its port and its data directory."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from firn.embedded.directory import lock_directory, prepare_directory
from firn.embedded.errors import StartFailed
from firn.embedded.ports import free_port, require_free
from firn.embedded.process import GuardedProcess, make_early_end_error, read_last_lines, require_java


class EmbeddedService(ABC):
    """One process and its data directory.

    The process ends with stop(), with this object, or with this process, also if that is killed.
    """

    name: ClassVar[str]
    """As messages call it."""
    owner: ClassVar[str]
    """As messages call one that holds the directory."""
    data_owner: ClassVar[str]
    """As messages call the contents of the directory."""
    log_name: ClassVar[str]
    pipes_stdout: ClassVar[bool] = False

    def __init__(self, data_dir: Path, port: int, *, heap_mib: int, start_seconds: float) -> None:
        """`port` 0 chooses a free port. Nothing happens before start()."""
        self.data_dir = data_dir.absolute()
        self.port = port
        self._heap_mib = heap_mib
        self._start_seconds = start_seconds
        self._process: GuardedProcess | None = None

    @property
    def log(self) -> Path:
        """The output of the process, over all its starts."""
        return self.data_dir / self.log_name

    @property
    def running(self) -> bool:
        """Whether the process runs; it may not answer yet."""
        return self._process is not None and self._process.exit_status is None

    def start(self) -> Self:
        """Start it, and return once it has answered a request; about five seconds.

        Raises an EmbeddedError, and leaves no process then. A start of a running one changes nothing.
        """
        if self.running:
            return self
        self.stop()  # a dead process still holds its pipes
        java = require_java()
        self._prepare()
        prepare_directory(self.data_dir, owner=self.data_owner)
        give_up = time.monotonic() + self._start_seconds
        with ExitStack() as undo:
            with lock_directory(self.data_dir, owner=self.owner) as lock:
                self.port = self.port or free_port()
                require_free(self.port, owner=self.name)
                command = self._command(java.path)
                self._process = GuardedProcess(
                    command, log=self.log, cwd=self.data_dir, keep_open=[lock], pipe_stdout=self.pipes_stdout
                )
                undo.callback(self.stop)
            self._wait(self._process, give_up)
            undo.pop_all()
        return self

    def stop(self) -> None:
        """End it, and wait for the end. A stop of a stopped one changes nothing."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @abstractmethod
    def _prepare(self) -> None:
        """Check and fetch what the start needs, before the data directory is created."""

    @abstractmethod
    def _command(self, java: Path) -> list[str]:
        """Write the settings into the locked directory, and return the command of the process."""

    @abstractmethod
    def _does_answer(self) -> bool: ...

    def _wait(self, process: GuardedProcess, give_up: float) -> None:
        """Return once it answers; raise StartFailed if it ends before, or takes too long."""
        while not self._does_answer():
            if process.exit_status is not None or time.monotonic() > give_up:
                raise self._make_start_error(process)
            time.sleep(0.1)

    def _make_start_error(self, process: GuardedProcess) -> StartFailed:
        status = process.wait_for_end(1)  # its output ends shortly before the process
        if status is not None:
            return make_early_end_error(self.name, status, self.log)
        return StartFailed(
            f"{self.name} did not answer within {self._start_seconds:.0f} s. "
            f"The end of {self.log}:\n{read_last_lines(self.log)}"
        )
