"""What a JVM says while it starts, kept from people's terminals."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def stderr_into(log: Path) -> Iterator[None]:
    """Let standard error go into a file; a child started meanwhile goes on writing there afterwards.

    Python's own `sys.stderr` writes to the same descriptor, so nothing is lost: it is in the file.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
