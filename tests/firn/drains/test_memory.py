"""Many streams in one process: a thread that waits for its next commit keeps little memory."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from firn.drains.light import LightDrain

THREADS = 40
MOST_KIB_PER_THREAD = 700
PROGRAM = f"""
import io, sys, threading
import pyarrow as pa
import pyarrow.parquet as pq
from firn.drains.memory import releasing_memory


def resident_kib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4


def commit():
    rows = pa.table({{f"c{{n}}": pa.array([f"value {{n}} {{row}}" for row in range(80)]) for n in range(10)}})
    file = io.BytesIO()
    pq.write_table(rows, file, compression="zstd")
    pq.read_table(io.BytesIO(file.getvalue()))


def stream():
    for _ in range(3):
        with releasing_memory():
            commit()
    committed.release()
    ended.wait()


commit()  # loads what all threads share
before, committed, ended = resident_kib(), threading.Semaphore(0), threading.Event()
for _ in range({THREADS}):
    threading.Thread(target=stream, daemon=True).start()
for _ in range({THREADS}):
    committed.acquire()
print((resident_kib() - before) // {THREADS})
"""


def test_a_thread_that_has_committed_keeps_little_memory() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < MOST_KIB_PER_THREAD, "without the release it is 1,500 or more"


def test_a_commit_releases_memory_also_if_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    released = list[str]()

    class Pool:
        def release_unused(self) -> None:
            released.append("released")

    class Stores:
        def load(self, store: str) -> Any:
            raise ValueError(store)

    monkeypatch.setattr(pa, "default_memory_pool", Pool)
    drain: Any = LightDrain.__new__(LightDrain)
    drain.stores = Stores()
    with pytest.raises(ValueError, match="change"):
        drain.commit(None, None)
    assert released == ["released"]
