"""Wall and CPU seconds of what processes do, and what many rounds of them say."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """What something took. Other work on the machine stretches wall seconds much, CPU seconds little."""

    wall: float
    cpu: float

    def __add__(self, other: Cost) -> Cost:
        """Of both, one after the other."""
        return Cost(self.wall + other.wall, self.cpu + other.cpu)

    def to_json(self) -> dict[str, float]:
        """Rounded to what the clocks can tell."""
        return {"wall_s": round(self.wall, 3), "cpu_s": round(self.cpu, 2)}


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """Times actions, counting the CPU seconds of the processes that do the work."""

    pids: Sequence[int]

    def cost(self, action: Callable[[], T]) -> tuple[Cost, T]:
        """Run the action: what it cost, and what it returned."""
        wall, cpu = time.perf_counter(), self._cpu()
        value = action()
        return Cost(time.perf_counter() - wall, self._cpu() - cpu), value

    def _cpu(self) -> float:
        return sum(cpu_seconds(pid) for pid in self.pids)


@dataclass(frozen=True, slots=True)
class TreeStopwatch(Stopwatch):
    """Counts the CPU seconds of processes and of all their descendants, also of those that have ended."""

    def _cpu(self) -> float:
        return sum(seconds for _, seconds in _list_tree(self.pids))


def tree_mib(pids: Sequence[int]) -> int:
    """The memory that processes and their descendants hold now. What they share counts for each of them."""
    pages = 0
    for pid, _ in _list_tree(pids):
        try:
            pages += int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def _list_tree(roots: Sequence[int]) -> list[tuple[int, float]]:
    """Processes and all their descendants, with the CPU seconds of each and of its ended children."""
    times = {int(entry.name): times for entry in Path("/proc").glob("[0-9]*") if (times := _times(entry))}
    pids, tree = [*roots], []
    while pids:
        pid = pids.pop()
        if pid in times:
            tree.append((pid, times[pid][1]))
            pids += [child for child, (parent, _) in times.items() if parent == pid]
    return tree


def _times(entry: Path) -> tuple[int, float] | None:
    """The parent of a process, and the CPU seconds of it and of its ended children; None if it has ended."""
    try:
        after_name = (entry / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(after_name[1]), sum(map(int, after_name[11:15])) / _TICKS_PER_SECOND


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process so far, user and system, all threads."""
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / _TICKS_PER_SECOND


def median(costs: Sequence[Cost]) -> Cost:
    """The medians of both clocks, each for itself."""
    return Cost(statistics.median(cost.wall for cost in costs), statistics.median(cost.cpu for cost in costs))


def ratio(cost: Cost, other: Cost) -> dict[str, float]:
    """How many times the other's cost the one's is, by both clocks."""
    return {"wall": round(cost.wall / other.wall, 2), "cpu": round(cost.cpu / max(other.cpu, 0.01), 2)}


def forget_peak(pid: int) -> None:
    """Let the most memory that a process has held be what it holds now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def peak_mib(pid: int) -> int:
    """The most memory that a process has held, of its own and shared."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024
