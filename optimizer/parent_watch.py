"""Ends this process with its parent, which holds the other end of standard input and never writes.

However the parent ends, the kernel closes that end, and this process reads the end of the file.
"""

from __future__ import annotations

import logging
import os
import sys
import threading

GRACE_SECONDS = 30.0
ORPHANED = 3
"""Exit code of a process that did not stop within the grace."""

log = logging.getLogger(__name__)


def end_with_stdin(stopping: threading.Event, *, grace_seconds: float = GRACE_SECONDS) -> None:
    """Stop in order when standard input ends; what is not done after the grace is cut off.

    A commit that is cut off is settled by the server from the job's record. Java ends with us: it reads our end.
    """
    threading.Thread(target=_wait, args=(stopping, grace_seconds), name="standard input", daemon=True).start()


def _wait(stopping: threading.Event, grace_seconds: float) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    log.warning("whoever started this optimizer is gone: stopping")
    stopping.set()
    threading.Event().wait(grace_seconds)
    os._exit(ORPHANED)
