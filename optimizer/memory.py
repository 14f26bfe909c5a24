"""The memory of an optimizer, for people. Nothing in this process depends on it."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optimizer.spark import SparkProcess

FRESH_SECONDS = 5.0
"""Each reading costs some calls into Java; every beat and poll asks."""


@dataclass
class Memory:
    """Reads the JVM's heap, if there is a JVM, and the memory of its process and of this one."""

    spark: SparkProcess
    _read_at: float = float("-inf")
    _sizes: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> dict[str, int]:
        """Bytes: `heap_used` and `heap_max` once Spark runs, and `rss` where the system tells it."""
        with self._lock:
            has_heap = self.spark.running is not None
            if time.monotonic() - self._read_at > FRESH_SECONDS or has_heap != ("heap_max" in self._sizes):
                self._sizes = self._read()
                self._read_at = time.monotonic()
            return self._sizes

    def _read(self) -> dict[str, int]:
        spark = self.spark.running
        if spark is None:
            return {"rss": own} if (own := _resident(os.getpid())) else {}
        java: Any = spark._jvm
        heap = java.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage()
        usage = {"heap_used": int(heap.getUsed()), "heap_max": int(heap.getMax())}
        resident = [_resident(pid) for pid in (os.getpid(), int(java.java.lang.ProcessHandle.current().pid()))]
        return usage | ({"rss": sum(resident)} if all(resident) else {})


def _resident(pid: int) -> int:
    """Resident bytes of a process; 0 where they cannot be read."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
