"""Random histories of a directory whose files are made in place, renamed into it and removed, beside syncs.

Syncs list it only when some signal speaks for that, and a directory's own time tells of names alone: not of what is
written to a file, nor that it was closed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.hive import listing as module
from catalog.hive.baseline import ChangeSignals, PartitionBaseline, find_listing_reason
from catalog.hive.drift import Additions, NewPartition, Rebuild, Unchanged, classify_drift
from catalog.hive.listing import TICK_NS, ListedFile, Listing
from catalog.hive.unfinished_writes import may_be_unfinished

SIGNALS = ChangeSignals(location="p")
STEPS = st.lists(st.sampled_from(["create", "flush", "close", "put", "remove", "sync", "1 s", "20 s"]), max_size=25)


@dataclass
class Disk:
    """One directory, on a disk whose clock is the server's."""

    sees_writers: bool = True
    now: int = 10**18
    directory: int = 0
    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Size and time."""
    open: list[str] = field(default_factory=list)
    baseline: PartitionBaseline | None = None
    numbers: count[int] = field(default_factory=lambda: count(1))

    def step(self, action: str) -> None:
        match action:
            case "create":
                self._named(0)
                self.open.append([*self.files][-1])
            case "flush" if self.open:
                self._grow(self.open[0])
            case "close" if self.open:
                self._grow(self.open.pop(0))
            case "put":
                self._named(next(self.numbers))
            case "remove" if self.files:
                name = min(self.files)
                del self.files[name]
                self.open = [path for path in self.open if path != name]
                self.directory = self.now
            case "sync":
                self.sync()
            case "1 s" | "20 s":
                self.passes(int(action[:-2]))

    def _named(self, size: int) -> None:
        self.files[f"f{next(self.numbers):05}"] = size, self.now
        self.directory = self.now

    def _grow(self, name: str) -> None:
        self.files[name] = self.files[name][0] + next(self.numbers), self.now

    def passes(self, seconds: int) -> None:
        """Writers whose bytes are seen go on writing."""
        self.now += seconds * TICK_NS + 1000
        for name in self.open:
            if self.files[name][0]:
                self._grow(name)

    def sync(self) -> None:
        if find_listing_reason(self.baseline, SIGNALS, self.directory) is None:
            return
        there = {name: file for name, file in self.files.items() if file[0]}
        empty = [time for size, time in self.files.values() if not size]
        listing = Listing(
            location="p",
            files=tuple(ListedFile(name, size, time) for name, (size, time) in sorted(there.items())),
            began_ns=self.now,
            directory_mtime_ns=self.directory,
            is_being_written=self.sees_writers and any(may_be_unfinished(time, self.now) for time in empty),
        )
        drift = classify_drift(self.baseline, SIGNALS, listing)
        if isinstance(drift, Additions | NewPartition | Rebuild | Unchanged):
            self.baseline = drift.baseline
        elif self.baseline is not None:
            self.baseline = replace(self.baseline, settled=False)

    def settle(self) -> str | None:
        """All writers close, and the schedule goes on as ever."""
        while self.open:
            self.step("close")
        for _ in range(3):
            self.passes(90)
            self.sync()
        known = {file.path: (file.size, file.mtime_ns) for file in self.baseline.files} if self.baseline else {}
        if known != self.files:
            return f"{known} is known, {self.files} is there"
        return None if self.baseline is None or self.baseline.settled else "it is listed for ever"


def played(*steps: str, sees_writers: bool = True) -> str | None:
    disk = Disk(sees_writers=sees_writers)
    for action in steps:
        disk.step(action)
    return disk.settle()


@settings(max_examples=500)
@given(STEPS)
def test_every_file_is_taken_over_once_it_is_closed_and_no_directory_is_listed_for_ever(steps: list[str]) -> None:
    assert played(*steps) is None


def test_without_looking_at_empty_files_their_rows_stay_missing() -> None:
    history = "create", "20 s", "sync"
    assert played(*history) is None
    assert played(*history, sees_writers=False) is not None


def test_without_looking_at_young_files_again_what_is_written_later_stays_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert paused().settle() is None
    monkeypatch.setattr(module, "YOUNG_NS", 0)
    assert paused().settle() is not None


def paused() -> Disk:
    """A sync comes while a writer pauses that has written half."""
    disk = Disk()
    for action in ("create", "flush"):
        disk.step(action)
    disk.now += 20 * TICK_NS
    disk.sync()
    disk.step("close")
    return disk
