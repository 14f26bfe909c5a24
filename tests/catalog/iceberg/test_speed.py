"""A commit to a table with a long history costs about what copying one list costs."""

from __future__ import annotations

from time import perf_counter

from catalog.iceberg.table import apply_updates
from tests.catalog.iceberg.build import CREATED_MS, LOCATION, NOW_MS, a_table, add, move, snapshot

SNAPSHOTS = 20_000
ROUNDS = 7
LIMIT_SECONDS = 0.010


def test_an_append_to_20_000_snapshots_takes_less_than_10_ms() -> None:
    made = [snapshot(n, parent=n - 1 or None, first_row_id=n - 1, added_rows=1) for n in range(1, SNAPSHOTS + 1)]
    table = {
        **a_table(3),
        "snapshots": made,
        "snapshot-log": [{"timestamp-ms": CREATED_MS + n, "snapshot-id": n} for n in range(1, SNAPSHOTS + 1)],
        "refs": {"main": {"type": "branch", "snapshot-id": SNAPSHOTS}},
        "current-snapshot-id": SNAPSHOTS,
        "last-sequence-number": SNAPSHOTS,
        "next-row-id": SNAPSHOTS,
    }
    following = snapshot(SNAPSHOTS + 1, parent=SNAPSHOTS, first_row_id=SNAPSHOTS, added_rows=1)
    updates = [add(following), move(SNAPSHOTS + 1)]

    def seconds() -> float:
        start = perf_counter()
        later = apply_updates(table, updates, now_ms=NOW_MS, previous_location=f"{LOCATION}/1.json")
        taken = perf_counter() - start
        assert len(later["snapshots"]) == SNAPSHOTS + 1
        return taken

    # the fastest of several is what the work takes; the others measure what else the machine does
    assert min(seconds() for _ in range(ROUNDS)) < LIMIT_SECONDS
