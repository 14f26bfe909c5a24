"""A commit to a table with a long history looks at each old snapshot once, and copies the list, not what is in it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from catalog.iceberg.table import apply_updates
from tests.catalog.iceberg.build import CREATED_MS, LOCATION, NOW_MS, a_table, add, move, snapshot


def a_table_of(snapshots: int) -> dict[str, Any]:
    snapshots_json = [
        snapshot(n, parent=n - 1 or None, first_row_id=n - 1, added_rows=1) for n in range(1, snapshots + 1)
    ]
    return {
        **a_table(3),
        "snapshots": snapshots_json,
        "snapshot-log": [{"timestamp-ms": CREATED_MS + n, "snapshot-id": n} for n in range(1, snapshots + 1)],
        "refs": {"main": {"type": "branch", "snapshot-id": snapshots}},
        "current-snapshot-id": snapshots,
        "last-sequence-number": snapshots,
        "next-row-id": snapshots,
    }


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python that runs."""
    count = 0

    def heard(_frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        nonlocal count
        count += event == "line"
        return heard

    before = sys.gettrace()
    gc.disable()  # what other tests have left would be finalized here
    sys.settrace(heard)
    try:
        work()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def appended(snapshots: int) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Lines that an append to so many snapshots runs, and the table before and after it."""
    table, after = a_table_of(snapshots), dict[str, Any]()
    following = snapshot(snapshots + 1, parent=snapshots, first_row_id=snapshots, added_rows=1)
    updates = [add(following), move(snapshots + 1)]

    def append() -> None:
        after.update(apply_updates(table, updates, now_ms=NOW_MS, previous_location=f"{LOCATION}/1.json"))

    return lines_run(append), table, after


def test_an_append_runs_one_line_for_each_old_snapshot_and_copies_none() -> None:
    few, _, _ = appended(50)
    many, before, after = appended(2_000)
    assert many - few <= 2_000 - 50
    assert len(after["snapshots"]) == 2_001
    assert all(was is now for was, now in zip(before["snapshots"], after["snapshots"], strict=False))
