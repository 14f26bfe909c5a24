"""Child processes of optimizers: started without a shell, watched, and always stopped.

Each has a session of its own, so that all that it starts can be counted and killed with it, and a standard input whose
other end is held here: when this process dies, however it does, the child meets the end of it and stops.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from catalog.errors import Unavailable
from catalog.launch.command import Command
from catalog.launch.record import Process
from catalog.launch.settings import LaunchId
from catalog.launch.submit_output import find_pod_failure, find_reason
from catalog.ports.launch import Seen

LOG = "log"
LOG_BYTES = 16 * 1024 * 1024
"""The size above which a log moves to `log.1` and starts again."""
KEPT_LOGS = 50
GRACE_SECONDS = 20.0
_WORDS_BYTES = 64 * 1024


@dataclass
class Processes:
    """See catalog.ports.launch.Launcher. Each launch has a directory below this one."""

    directory: Path
    grace_seconds: float = GRACE_SECONDS
    _children: dict[LaunchId, subprocess.Popen[bytes]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    """Requests of people also check the children; each child is reaped once, and then its pid can be reused."""

    def start(self, launch_id: LaunchId, command: Command) -> Process:
        """Start a process with its output in its log, and without the server's own settings."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("FIRN_")}
        try:
            own = self._own_directory(launch_id)
            for name, text in command.files.items():
                _write(own / name, text)
            with (own / LOG).open("ab") as log:
                child = subprocess.Popen(
                    list(command.arguments),
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    cwd=own,
                    env={**inherited, **command.environment},
                    start_new_session=True,
                )
        except OSError as error:
            raise Unavailable(
                f"{command.arguments[0]} cannot be started: {error.strerror}", hint=_advise(command, error)
            ) from error
        with self._lock:
            self._children[launch_id] = child
        return Process(host=socket.gethostname(), pid=child.pid, started=_started(child.pid) or 0)

    def inspect(self, launch_id: LaunchId) -> Seen | None:
        """Get the state of a process; None if this server did not start it."""
        log = self.directory / launch_id / LOG
        with self._lock:
            child = self._children.get(launch_id)
            if child is None:
                return None
            if _has_ended(child):
                return _describe_end(_buried(child), log)
            _rotate(log)
            return Seen(exit_status=None, resident=_resident(child.pid), last_words="")

    def kill(self, launch_id: LaunchId) -> None:
        """Stop a process with its session, including its children."""
        with self._lock:
            child = self._children.pop(launch_id, None)
            if child is not None:
                _buried(child)

    def discard(self, launch_id: LaunchId) -> None:
        """Remove a log when there are enough newer ones."""
        with self._lock:
            child = self._children.get(launch_id)
            if child is not None and child.returncode is not None:
                del self._children[launch_id]

    def kill_stray(self, process: Process) -> bool:
        """Stop only the same process, because its pid may have been reused."""
        if process.host != socket.gethostname() or _started(process.pid) != process.started:
            return False
        _kill_session(process.pid)
        return True

    def is_gone(self, process: Process) -> bool:
        """Whether a process is gone: never known for another machine; a later process with its pid does not count."""
        is_known = process.host == socket.gethostname() and process.started != 0
        return is_known and _started(process.pid) != process.started

    def stop_all(self) -> None:
        """Stop all processes in parallel, by the end of their input and a signal."""
        with self._lock:
            children = [child for child in self._children.values() if child.returncode is None]
            for child in children:
                _close(child)
                os.kill(child.pid, signal.SIGTERM)
            give_up = time.monotonic() + self.grace_seconds
            while not all(_has_ended(child) for child in children) and time.monotonic() < give_up:
                time.sleep(0.05)
            for child in children:
                _buried(child)
            self._children.clear()

    def _own_directory(self, launch_id: LaunchId) -> Path:
        self.directory.mkdir(mode=0o700, exist_ok=True)
        logs = sorted(self.directory.iterdir(), key=lambda directory: directory.stat().st_mtime)
        with self._lock:
            living = set(self._children)
        for old in logs[:-KEPT_LOGS]:
            if old.name not in living:
                shutil.rmtree(old, ignore_errors=True)
        own = self.directory / launch_id
        own.mkdir(mode=0o700)
        return own


def _write(path: Path, text: str) -> None:
    """Create a file that only its owner can ever read, because it may contain a token."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _advise(command: Command, error: OSError) -> str | None:
    """The advice for a launch whose spark-submit does not exist."""
    is_submit = "--properties-file" in command.arguments
    return (
        "set optimizers.spark_submit to a spark-submit" if is_submit and isinstance(error, FileNotFoundError) else None
    )


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Check for the end without reaping, which keeps the pid from being reused."""
    if child.returncode is not None:
        return True
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _buried(child: subprocess.Popen[bytes]) -> int:
    """Collect the exit status of an ended process and kill its children."""
    if child.returncode is None:
        _kill_session(child.pid)
        child.wait()
        _close(child)
    return int(child.returncode)


def _close(child: subprocess.Popen[bytes]) -> None:
    if child.stdin is not None:
        child.stdin.close()


def _rotate(log: Path) -> None:
    """Rotate the log by copying and truncating it, because the child keeps appending to the same file."""
    with suppress(OSError):  # a full disk must not stop the watch
        if log.stat().st_size > LOG_BYTES:
            shutil.copyfile(log, log.with_name(f"{LOG}.1"))
            os.truncate(log, 0)


def _describe_end(exit_status: int, log: Path) -> Seen:
    """Describe an ended process. On Kubernetes spark-submit ends with status 0 also if the driver has failed."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _WORDS_BYTES))
            output = file.read().decode(errors="replace")
    except OSError as error:
        return Seen(exit_status=exit_status, resident=None, last_words=f"its log cannot be read: {error.strerror}")
    failure = find_pod_failure(output) if exit_status == 0 else None
    if failure is not None:
        return Seen(exit_status=failure.exit_status, resident=None, last_words=failure.reason)
    return Seen(exit_status=exit_status, resident=None, last_words=find_reason(output))


def _kill_session(pid: int) -> None:
    for member in {pid, *_session(pid)}:
        with suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)


def _resident(pid: int) -> int | None:
    """Sum the memory of all processes of the session in bytes; None if the system does not report it."""
    pages = 0
    for member in _session(pid):
        try:
            pages += int(Path(f"/proc/{member}/statm").read_text(encoding="ascii").split()[1])
        except (OSError, IndexError):
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") or None


def _session(leader: int) -> list[int]:
    """List the processes of the session that a process leads; empty without /proc."""
    numbers = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
    return [pid for pid in numbers if (fields := _stat(pid)) and int(fields[3]) == leader]


def _started(pid: int) -> int | None:
    """Get the start time of a process in the kernel's ticks."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def _stat(pid: int) -> list[str]:
    """Read the fields of /proc/PID/stat after the name, which can contain any character."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
