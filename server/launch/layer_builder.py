"""Runs the builder of images as a child process, so that its memory and its CPU are not the server's.

The process starts with the first task and ends with the server: it reads its tasks from a pipe. One task runs at a
time. A process that dies or takes too long is replaced with the next task.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from catalog.errors import Invalid, NotFound, Unavailable
from catalog.ports.images import BuildTooLarge
from firn.protocol.tasks.feed import FeedRows, FeedTask, QuarantineRows, QuarantineTask
from firn.protocol.tasks.image import (
    BuilderMessage,
    BuilderTask,
    DeletedRows,
    DeletesTask,
    KeyReport,
    KeysTask,
    Layer,
    LayerTask,
    UpsertedRows,
    UpsertsTask,
)

COMMAND = (sys.executable, "-m", "optimizer.images")
TIMEOUT_SECONDS = 120.0


@dataclass
class LayerBuilderProcess:
    """Implements `catalog.ports.images.LayerBuilder`, `KeyChecker` and `FeedReader`."""

    command: Sequence[str] = COMMAND
    timeout_seconds: float = TIMEOUT_SECONDS
    _process: subprocess.Popen[bytes] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def build(self, task: LayerTask, check: Callable[[Sequence[str]], None]) -> Layer:
        """See the port."""
        message = self._run(BuilderTask(layer=task), check)
        if message.layer is None:
            raise Unavailable(f"the image cannot be built: {message.error}")
        return message.layer

    def check_keys(self, task: KeysTask, check: Callable[[Sequence[str]], None]) -> KeyReport:
        """See the port."""
        message = self._run(BuilderTask(keys=task), check)
        if message.keys is None:
            raise Unavailable(f"the keys cannot be checked: {message.error}")
        return message.keys

    def find_deleted(self, task: DeletesTask, check: Callable[[Sequence[str]], None]) -> DeletedRows:
        """See the port."""
        message = self._run(BuilderTask(deletes=task), check)
        if message.deletes is None:
            raise Unavailable(f"the deleted rows cannot be read: {message.error}")
        return message.deletes

    def read_upserts(self, task: UpsertsTask, check: Callable[[Sequence[str]], None]) -> UpsertedRows:
        """See the port."""
        message = self._run(BuilderTask(upserts=task), check)
        if message.upserts is None:
            raise Unavailable(f"the rows cannot be read: {message.error}")
        return message.upserts

    def read_feed(self, task: FeedTask, check: Callable[[Sequence[str]], None]) -> FeedRows:
        """See the port."""
        message = self._run(BuilderTask(feed=task), check)
        if message.refused is not None:
            raise Invalid(message.refused.message, hint=message.refused.hint)
        if message.feed is None:
            raise Unavailable(f"the changes cannot be read: {message.error}")
        return message.feed

    def read_quarantine(self, task: QuarantineTask, check: Callable[[Sequence[str]], None]) -> QuarantineRows:
        """See the port."""
        message = self._run(BuilderTask(quarantine=task), check)
        if message.quarantine is None:
            raise Unavailable(f"the quarantine cannot be read: {message.error}")
        return message.quarantine

    def _run(self, task: BuilderTask, check: Callable[[Sequence[str]], None]) -> BuilderMessage:
        with self._lock:
            try:
                message = self._converse(task, check)
            except TimeoutError as error:
                self._end()
                raise BuildTooLarge(f"the builder of images took longer than {self.timeout_seconds:g} s") from error
            except (OSError, ValidationError) as error:
                self._end()
                raise Unavailable(
                    f"the builder of images stopped: {error}",
                    hint="The next request starts it again; its messages are in the server's log.",
                ) from error
            except BaseException:  # a builder that still works would give its result to the next task
                self._end()
                raise
        if message.too_large is not None:
            raise BuildTooLarge(message.too_large)
        if message.gone is not None:
            raise NotFound(f"a file of the table is gone: {message.gone}", hint="Read the table again.")
        return message

    def stop(self) -> None:
        """End the process; a running build ends with it."""
        if self._process is not None:
            self._process.kill()
        with self._lock:
            self._end()

    def _converse(self, task: BuilderTask, check: Callable[[Sequence[str]], None]) -> BuilderMessage:
        """Give the task, answer the builder's questions, and return its last message."""
        process, deadline = self._running(), time.monotonic() + self.timeout_seconds
        write_line(process, task.model_dump_json())
        while (files := (message := _read(process, deadline)).open) is not None:
            check(files)
            write_line(process, "true")
        return message

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = start_builder(self.command)
            weakref.finalize(self, kill, self._process)
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            kill(self._process)
            self._process = None


def start_builder(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the program of a builder, without the server's secrets in its environment."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FIRN_")}
    return subprocess.Popen(
        list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=inherited, start_new_session=True
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process at once, and close its pipes."""
    process.kill()
    process.communicate()


def write_line(process: subprocess.Popen[bytes], line: str) -> None:
    """Write a line to a process; BrokenPipeError if it has no input."""
    if process.stdin is None:
        raise BrokenPipeError("it has no input")
    process.stdin.write(line.encode() + b"\n")
    process.stdin.flush()


def _read(process: subprocess.Popen[bytes], deadline: float) -> BuilderMessage:
    """The next message; TimeoutError after the deadline, OSError when the process has ended."""
    if process.stdout is None:
        raise BrokenPipeError("it has no output")
    ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
    if not ready:
        raise TimeoutError("it took too long")
    line = process.stdout.readline()
    if not line.endswith(b"\n"):
        raise BrokenPipeError(f"it ended with exit code {process.wait()}")
    return BuilderMessage.model_validate_json(line)
