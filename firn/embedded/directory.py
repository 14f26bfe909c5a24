"""The data directory of an embedded part: creates, checks and locks it for one process at a time."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from firn.embedded.errors import AlreadyRunning, DataDirUnusable

# Longer than a child needs to end after its owner was killed.
LOCK_SECONDS = 15.0


def prepare_directory(directory: Path, *, owner: str) -> None:
    """Create the directory for this user only; raise DataDirUnusable if it cannot be written.

    Missing parents are not created: a mistyped path would start an empty metastore instead of the intended one.
    """
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        raise DataDirUnusable(
            f"{directory} cannot be created for {owner}: {directory.parent} does not exist. Correct the path, or "
            "create it."
        ) from None
    except OSError as error:
        raise DataDirUnusable(f"{directory} cannot be used for {owner}: {error.strerror}.") from error
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        raise DataDirUnusable(f"{directory} cannot be used for {owner}: this user may not write there.")


@contextmanager
def lock_directory(directory: Path, *, owner: str, wait_seconds: float = LOCK_SECONDS) -> Iterator[int]:
    """Lock the directory, and yield the descriptor of the lock.

    A child that inherits the descriptor keeps the lock after this block until it ends, so a successor cannot start on
    files that a dying predecessor still writes. Raises AlreadyRunning if another process keeps the lock longer than a
    dying one would.
    """
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        give_up = time.monotonic() + wait_seconds
        while not _try_lock(descriptor):
            if time.monotonic() > give_up:
                raise AlreadyRunning(f"{owner} already runs on {directory}. Stop it, or choose another directory.")
            time.sleep(0.1)
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
