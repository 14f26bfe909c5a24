"""Runs queries in a child process, which holds DuckDB: a query that takes too much memory or time ends the process.

The process starts with the first query and ends with the server, and after a while without queries. It gets none of
the server's secrets in its environment, and opens no file that the server has not checked.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from catalog.errors import Invalid, NotFound, Unavailable
from catalog.ports.queries import QueryCanceled
from firn.protocol.tasks.query import QueryMessage, QueryTask
from server.launch.layer_builder import kill, start_builder, write_line

COMMAND = (sys.executable, "-m", "optimizer.queries")
POLL_SECONDS = 0.1
LONGEST_MESSAGE = 256 * 1024 * 1024
_READ = 1024 * 1024
_LARGE = "the query stopped the engine; it probably needs more memory than the server allows"
_SMALLER = "Select fewer columns or rows, or use the engine Spark."


class _RefusedError(Exception):
    """The process refuses a statement or a table."""

    def __init__(self, message: str, hint: str | None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


@dataclass
class QueryProcess:
    """Implements `catalog.ports.queries.QueryEngine`. Each call of `run` waits for the one before."""

    seconds: float
    command: Sequence[str] = COMMAND
    idle_seconds: float = 300.0
    _process: subprocess.Popen[bytes] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _buffer: bytearray = field(default_factory=bytearray)
    _used: float = 0.0
    _stopped: bool = False

    def run(
        self,
        task: QueryTask,
        check: Callable[[str, Sequence[str]], None],
        take: Callable[[QueryMessage], None],
        is_canceled: Callable[[], bool],
    ) -> None:
        """See the port."""
        with self._lock:
            try:
                self._converse(task, check, take, is_canceled)
            except TimeoutError as error:
                self._end()
                raise Invalid(
                    f"the query took longer than {self.seconds:g} s",
                    hint="Read fewer rows, or use the engine Spark.",
                ) from error
            except (OSError, ValidationError) as error:
                self._end()
                if self._stopped:
                    raise Unavailable("the server is stopping", hint="Run the statement again.") from error
                raise Invalid(_LARGE, hint=_SMALLER) from error
            except _RefusedError as error:  # by the process, which is ready for the next query
                self._used = time.monotonic()
                raise Invalid(error.message, hint=error.hint) from error
            except BaseException:  # a process that still works would give its rows to the next query
                self._end()
                raise
            self._used = time.monotonic()

    def end_if_idle(self) -> bool:
        """End the process after a while without queries: it takes a few hundred megabytes."""
        if self._process is None or not self._lock.acquire(blocking=False):
            return False
        try:
            is_idle = time.monotonic() - self._used > self.idle_seconds
            if is_idle:
                self._end()
            return is_idle
        finally:
            self._lock.release()

    def stop(self) -> None:
        """End the process; a running query ends with it."""
        self._stopped = True
        process = self._process
        if process is not None:
            process.kill()
        with self._lock:
            self._end()

    def _converse(
        self,
        task: QueryTask,
        check: Callable[[str, Sequence[str]], None],
        take: Callable[[QueryMessage], None],
        is_canceled: Callable[[], bool],
    ) -> None:
        process, deadline = self._running(), time.monotonic() + self.seconds
        write_line(process, task.model_dump_json())
        for message in self._messages(process, deadline, is_canceled):
            if message.open is not None:
                check(message.view or "", message.open)
                write_line(process, "true")
            elif message.refused is not None:
                raise _RefusedError(message.refused.message, message.refused.hint)
            elif message.gone is not None:
                raise NotFound(f"a file of a table is gone: {message.gone}", hint="Run the statement again.")
            elif message.error is not None:
                raise Unavailable(f"the tables cannot be read: {message.error}", hint="Use the engine Spark.")
            else:
                take(message)
                if message.done is not None:
                    return

    def _messages(
        self, process: subprocess.Popen[bytes], deadline: float, is_canceled: Callable[[], bool]
    ) -> Iterator[QueryMessage]:
        assert process.stdout is not None
        out = process.stdout.fileno()
        while True:
            while (end := self._buffer.find(b"\n")) >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                yield QueryMessage.model_validate_json(line)
            if self._stopped:  # perhaps just before the process was started
                raise BrokenPipeError("the server is stopping")
            if is_canceled():
                raise QueryCanceled
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            ready, _, _ = select.select([out], [], [], min(left, POLL_SECONDS))
            if ready:
                read = os.read(out, _READ)
                if not read or len(self._buffer) > LONGEST_MESSAGE:
                    raise BrokenPipeError("it ended")
                self._buffer += read

    def _running(self) -> subprocess.Popen[bytes]:
        if self._stopped:
            raise BrokenPipeError("it is stopped")
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = start_builder(self.command)
            weakref.finalize(self, kill, self._process)
        return self._process

    def _end(self) -> None:
        self._buffer.clear()
        if self._process is not None:
            kill(self._process)
            self._process = None
