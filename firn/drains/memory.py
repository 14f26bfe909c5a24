"""Gives memory back after each commit of a drain.

Arrow's allocator keeps the pages that a thread has freed, for the same thread. An optimizer has a thread for each
stream, and each thread would keep 1 to 2 MiB for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa


@contextmanager
def releasing_memory() -> Iterator[None]:
    """Return what Arrow has freed in this thread to the system, however the block ends."""
    try:
        yield
    finally:
        pa.default_memory_pool().release_unused()
