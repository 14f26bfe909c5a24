"""Runs one command, and ends it when the process that started the guard has ended.

    python guard.py COMMAND…

The starter holds the other end of this process's standard input and never writes to it. However the starter ends, even
by kill -9, the kernel closes that end, and the guard reads the end of the file. If the guard itself is killed, the
kernel ends the command too (only on Linux; elsewhere it keeps running).

The guard is a process and not a thread of the starter, because Linux ties a child's life to the *thread* that started
it. It runs by file name with `-I -S`, so it may use only the standard library, and starts in 20 ms.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys

GRACE_SECONDS = 10
PR_SET_PDEATHSIG = 1


def main(command: list[str]) -> int:
    """Run the command and return its exit status; 128 + n if signal n ended it."""
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(
            number, lambda *_: None
        )  # it only has to wake up; without a handler the signal would end the guard
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        close_fds=False,  # the command itself must keep an inherited lock until it ends
        preexec_fn=_end_with_parent,  # noqa: PLW1509  # safe: this process has one thread
    )
    while child.poll() is None:
        ready, _, _ = select.select([sys.stdin, wake], [], [])
        if sys.stdin in ready or _has_stop_signal(os.read(wake, 64)):
            _end(child)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _has_stop_signal(signals: bytes) -> bool:
    return any(number in signals for number in (signal.SIGTERM, signal.SIGINT))


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
