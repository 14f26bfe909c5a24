from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from firn.embedded.directory import lock_directory
from firn.embedded.process import GuardedProcess, read_last_lines

# Names its own pid, then lives for longer than any test.
CHILD = ["/bin/sh", "-c", "echo $$; exec sleep 600"]

OWNER = """
import sys, time
from pathlib import Path
from firn.embedded.process import GuardedProcess
child = GuardedProcess(sys.argv[2:], log=Path(sys.argv[1]), cwd=Path("/"))
time.sleep(600)
"""


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def pid_in(log: Path) -> int:
    assert within(10, lambda: log.exists() and log.read_text(encoding="utf-8").endswith("\n"))
    return int(log.read_text(encoding="utf-8").splitlines()[0])


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


def test_stop_ends_the_child_and_returns_when_it_is_gone(tmp_path: Path) -> None:
    process = GuardedProcess(CHILD, log=tmp_path / "log", cwd=tmp_path)
    child = pid_in(tmp_path / "log")
    assert process.exit_status is None
    process.stop()
    assert not alive(child)
    process.stop()


def test_a_child_follows_an_owner_that_was_killed(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path / "log"), *CHILD])
    child = pid_in(tmp_path / "log")
    owner.kill()
    owner.wait()
    assert within(5, lambda: not alive(child))


def test_a_child_follows_its_guard_that_was_killed(tmp_path: Path) -> None:
    process = GuardedProcess(CHILD, log=tmp_path / "log", cwd=tmp_path)
    child = pid_in(tmp_path / "log")
    os.kill(parent_of(child), signal.SIGKILL)
    assert within(5, lambda: not alive(child))
    process.stop()


def test_the_childs_own_end_and_status_are_seen(tmp_path: Path) -> None:
    process = GuardedProcess(["/bin/sh", "-c", "echo no room; exit 7"], log=tmp_path / "log", cwd=tmp_path)
    assert within(10, lambda: process.exit_status is not None)
    assert process.exit_status == 7
    assert read_last_lines(tmp_path / "log") == "no room"
    process.stop()


def test_a_directory_stays_held_until_the_child_is_gone(tmp_path: Path) -> None:
    with lock_directory(tmp_path, owner="A test") as lock:
        process = GuardedProcess(CHILD, log=tmp_path / "log", cwd=tmp_path, keep_open=[lock])
    child = pid_in(tmp_path / "log")
    os.kill(parent_of(child), signal.SIGSTOP)  # a guard that cannot act, so that only the child's own hold counts
    held = subprocess.run(["flock", "--nonblock", str(tmp_path / "lock"), "true"], check=False).returncode
    os.kill(parent_of(child), signal.SIGCONT)
    process.stop()
    freed = subprocess.run(["flock", "--nonblock", str(tmp_path / "lock"), "true"], check=False).returncode
    assert (held, freed) == (1, 0)


def test_only_the_end_of_a_long_log_is_quoted(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {n}\n" for n in range(100_000)), encoding="utf-8")
    assert read_last_lines(log, 2) == "line 99998\nline 99999"
