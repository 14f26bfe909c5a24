"""What listings show of writers that have not finished: a partition with it is listed again, whatever its signals say.

A file that is made in place is seen without bytes first, and closing it moves no directory's time. What lies below a
hidden name is moved at the end, which directories tell of where they have times.
"""

from __future__ import annotations

from catalog.hive.listing import TICK_NS

UNFINISHED_NS = 24 * 3600 * TICK_NS
"""The longest duration of a write. Older unfinished files were abandoned; only a sweep lists them again."""


def is_unfinished_work(name: str) -> bool:
    """Whether a hidden file or directory of this name holds what a writer of Hadoop, Hive or Spark moves later."""
    return name.endswith("._COPYING_") or name.startswith(("_temporary", "_tmp.", ".hive-staging", ".spark-staging"))


def may_be_unfinished(mtime_ns: int | None, began_ns: int) -> bool:
    """Whether whoever left something unfinished at that time may still be at it when a listing began."""
    return mtime_ns is not None and abs(began_ns - mtime_ns) < UNFINISHED_NS
