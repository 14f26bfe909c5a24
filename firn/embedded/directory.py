"""The data directory of an embedded part: made, checked, and held by one process at a time."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from firn.embedded.errors import AlreadyRunning, DataDirUnusable

# Longer than a child whose owner was killed needs to follow it.
LOCK_SECONDS = 15.0


def prepared(directory: Path, *, what: str) -> None:
    """Make the directory, its own name only, for this user alone; DataDirUnusable when it cannot be written.

    Missing parents are not made: a mistyped path would start an empty metastore instead of the one that was meant.
    """
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        raise DataDirUnusable(
            f"{directory} cannot be made for {what}: {directory.parent} does not exist. Correct the path, or make it."
        ) from None
    except OSError as error:
        raise DataDirUnusable(f"{directory} cannot be used for {what}: {error.strerror}.") from error
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        raise DataDirUnusable(f"{directory} cannot be used for {what}: this user may not write there.")


@contextmanager
def exclusive(directory: Path, *, what: str, wait_seconds: float = LOCK_SECONDS) -> Iterator[int]:
    """Hold the directory; gives the descriptor that holds it.

    A child that inherits the descriptor goes on holding the directory after this block, until it is gone itself, so
    a successor cannot start on files that a dying predecessor still writes.  Raises AlreadyRunning if another process
    holds it for longer than a dying one could.
    """
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        give_up = time.monotonic() + wait_seconds
        while not _taken(descriptor):
            if time.monotonic() > give_up:
                raise AlreadyRunning(
                    f"{what} is running on {directory} already. Stop that one, or choose another directory."
                )
            time.sleep(0.1)
        yield descriptor
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
