"""Which snapshots and refs may go, and where no file may be deleted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from catalog.iceberg.json import Json
from catalog.names import TableName
from catalog.retention.expire_snapshots import ExpiredSnapshots, ExpirePolicy, build_expire_task, select_expired
from catalog.timestamps import to_milliseconds

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def a_table(
    ages: Sequence[tuple[int, float, int | None]], refs: dict[str, Any], log: Sequence[int] | None = None
) -> Json:
    """Snapshots as (id, days old, parent); main's log has those of `log`, or all."""
    snapshots = [
        {"snapshot-id": name, "sequence-number": name, "timestamp-ms": to_milliseconds(NOW - days * DAY)}
        | ({} if parent is None else {"parent-snapshot-id": parent})
        for name, days, parent in ages
    ]
    logged = [snapshot for snapshot in snapshots if log is None or snapshot["snapshot-id"] in log]
    entries = [
        {"snapshot-id": snapshot["snapshot-id"], "timestamp-ms": snapshot["timestamp-ms"]} for snapshot in logged
    ]
    return {"table-uuid": "u", "location": "file:/t", "snapshots": snapshots, "refs": refs, "snapshot-log": entries}


def branch(at: int, **more: int) -> Json:
    return {"type": "branch", "snapshot-id": at, **{key.replace("_", "-"): value for key, value in more.items()}}


def tag(at: int, **more: int) -> Json:
    return branch(at, **more) | {"type": "tag"}


def gone(metadata: Json, *, days: int = 5, last: int = 1, **more: Any) -> list[int]:
    return list(
        select_expired(metadata, ExpirePolicy(max_age=days * DAY, keep_last=last), now=NOW, **more).snapshot_ids
    )


LINE = [(n, 40 - n, n - 1 if n > 1 else None) for n in range(1, 8)]


def test_a_snapshots_age_counts_from_when_it_stopped_being_the_head() -> None:
    metadata = a_table([(1, 30, None), (2, 4, 1), (3, 1, 2)], {"main": branch(3)})
    assert gone(metadata, days=5) == []
    assert gone(metadata, days=3) == [1]


def test_refs_needed_snapshots_the_last_ones_and_history_above_the_watermark_stay() -> None:
    metadata = a_table(LINE, {"main": branch(7), "audit": tag(2)})
    assert gone(metadata, last=2, needed={3}) == [1, 4, 5]
    assert gone(metadata, last=2, needed={3}, needed_above=4) == [1, 4]


def test_a_table_with_too_many_snapshots_keeps_the_newest_and_those_of_two_hours() -> None:
    policy = ExpirePolicy(max_age=60 * DAY, keep_last=1, max_snapshots=3)

    def expire(metadata: Json, **more: Any) -> list[int]:
        return [*select_expired(metadata, policy, now=NOW, **more).snapshot_ids]

    metadata = a_table(LINE, {"main": branch(7)})
    assert expire(metadata) == [1, 2, 3, 4]
    assert expire(metadata, needed={1}, needed_above=3) == [2, 3]
    assert expire(a_table(LINE[:3], {"main": branch(3)})) == []
    hours = [(1, 9, None), (2, 3, 1), (3, 1.9, 2), (4, 1.5, 3), (5, 1, 4), (6, 0.5, 5)]
    young = [(name, number / 24, parent) for name, number, parent in hours]
    assert expire(a_table(young, {"main": branch(6)})) == [1]


def test_a_branch_with_a_retention_of_its_own_is_not_cut_by_number() -> None:
    policy = ExpirePolicy(max_age=60 * DAY, keep_last=1, max_snapshots=3)
    months = to_milliseconds(datetime(1970, 3, 1, tzinfo=UTC))
    metadata = a_table(LINE, {"main": branch(7, max_snapshot_age_ms=months)})
    assert not select_expired(metadata, policy, now=NOW)


def test_a_branch_keeps_its_own_history() -> None:
    """Peers counted the newest snapshots of all branches together, and expired what one of them stood on."""
    side = [(8, 30, 3), (9, 30, 8), (10, 30, 9)]
    metadata = a_table([*LINE, *side], {"main": branch(7), "side": branch(10)}, log=range(1, 8))
    assert gone(metadata, last=2) == [1, 2, 3, 4, 5, 8]
    metadata["refs"]["side"] = branch(10, min_snapshots_to_keep=4)
    assert gone(metadata, last=2) == [1, 2, 4, 5]


def test_a_branch_that_says_how_long_it_keeps_its_snapshots_is_heeded() -> None:
    long, short = to_milliseconds(datetime(1970, 3, 1, tzinfo=UTC)), 1
    assert gone(a_table(LINE, {"main": branch(7, max_snapshot_age_ms=long)})) == []
    young = [(1, 3, None), (2, 2, 1), (3, 1, 2)]
    assert gone(a_table(young, {"main": branch(3, max_snapshot_age_ms=short)}, log=[3])) == [1, 2]


def test_a_staged_snapshot_is_kept_while_it_is_young() -> None:
    """Written ahead and not yet published: no branch stands on it, and its writer will."""
    metadata = a_table([*LINE, (20, 4, 7), (21, 6, 7)], {"main": branch(7)}, log=range(1, 8))
    assert gone(metadata, last=7) == [21]


def test_what_a_rollback_left_is_kept_while_it_is_young() -> None:
    metadata = a_table([(1, 9, None), (2, 8, 1), (3, 2, 2)], {"main": branch(1)}, log=[])
    assert gone(metadata) == []
    assert gone(metadata, days=1) == [2, 3]


def test_a_ref_goes_when_it_is_as_old_as_it_was_to_become_and_main_never_does() -> None:
    a_day = 86_400_000
    refs = {"main": branch(7, max_ref_age_ms=1), "old": tag(2, max_ref_age_ms=a_day), "new": tag(3)}
    expired = select_expired(a_table(LINE, refs), ExpirePolicy(max_age=5 * DAY, keep_last=1), now=NOW)
    assert expired.refs == {"old": 2}
    assert list(expired.snapshot_ids) == [1, 2, 4, 5, 6]


def test_tables_that_nothing_leaves_are_left_out_and_parts_may_hold_dots() -> None:
    table, other = TableName(("db", "a.b"), "base"), TableName(("db",), "orders")
    metadata = a_table([], {})
    empty, some = ExpiredSnapshots(snapshot_ids=(), refs={}), ExpiredSnapshots(snapshot_ids=(4, 2), refs={"t": 2})
    (only,) = build_expire_task([(table, metadata, some), (other, metadata, empty)]).tables
    assert (only.parts, only.snapshot_ids, only.refs) == (["db", "a.b", "base"], [2, 4], {"t": 2})
