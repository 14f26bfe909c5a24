"""Keeps the output of a starting JVM off the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def redirect_stderr(log: Path) -> Iterator[None]:
    """Redirect standard error to a file. A child that starts meanwhile keeps writing there afterwards.

    Python's own `sys.stderr` uses the same descriptor, so its output is in the file too.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)
