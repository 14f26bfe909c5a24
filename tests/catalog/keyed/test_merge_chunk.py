"""What one merge takes of a backlog: whole commits, the oldest first, within its bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.iceberg.json import Json
from catalog.keyed.merge_chunk import Chunk, choose_chunk


def a_change_store(*commits: tuple[str, int], expired: int = 0) -> Json:
    """A store whose n-th commit has sequence number n and id 100 + n; the oldest may have expired."""
    snapshots = []
    for number, (operation, rows) in enumerate(commits, start=1):
        metadata: Json = {
            "snapshot-id": 100 + number,
            "sequence-number": number,
            "summary": {"operation": operation, "added-records": str(rows)},
        }
        snapshots.append(metadata | ({"parent-snapshot-id": 99 + number} if number > 1 else {}))
    return {"snapshots": snapshots[expired:], "current-snapshot-id": 100 + len(commits) if commits else -1}


def chunk(*commits: tuple[str, int], watermark: int = 0, max_rows: int | None = 10, expired: int = 0) -> Chunk | None:
    return choose_chunk(a_change_store(*commits, expired=expired), watermark=watermark, max_rows=max_rows)


def a_chunk(through: int, rows: int, *, is_last: bool) -> Chunk:
    return Chunk(snapshot_id=100 + through, through=through, rows=rows, is_last=is_last)


def test_nothing_above_the_watermark_is_no_chunk() -> None:
    assert chunk() is None
    assert chunk(("append", 5), watermark=1) is None


def test_commits_are_taken_as_long_as_they_fit() -> None:
    backlog = [("append", 4), ("append", 6), ("append", 1)]
    assert chunk(*backlog) == a_chunk(2, 10, is_last=False)
    assert chunk(*backlog, watermark=2) == a_chunk(3, 1, is_last=True)
    assert chunk(*backlog, max_rows=11) == a_chunk(3, 11, is_last=True)
    assert chunk(*backlog, max_rows=None) == a_chunk(3, 11, is_last=True)


def test_a_commit_over_the_bound_is_taken_alone() -> None:
    assert chunk(("append", 50), ("append", 1)) == a_chunk(1, 50, is_last=False)
    assert chunk(("append", 0), ("append", 50), ("append", 1)) == a_chunk(2, 50, is_last=False)


@pytest.mark.parametrize("operation", ["delete", "replace"])
def test_cleans_and_compactions_bring_no_rows_and_may_end_a_chunk(operation: str) -> None:
    backlog = [("append", 9), (operation, 50), ("append", 2), (operation, 50)]
    assert chunk(*backlog) == a_chunk(2, 9, is_last=False)
    assert chunk(*backlog, watermark=2) == a_chunk(4, 2, is_last=True)


def test_the_oldest_snapshot_stands_for_expired_ones_before_it() -> None:
    assert chunk(("append", 9), ("append", 9), ("append", 9), expired=1) == a_chunk(2, 9, is_last=False)


COMMITS = st.lists(st.tuples(st.sampled_from(["append", "append", "delete", "replace"]), st.integers(0, 12)))


@given(COMMITS, st.integers(1, 20))
def test_chunks_in_a_row_take_every_commit_once_and_no_more_than_the_bound(
    commits: list[tuple[str, int]], bound: int
) -> None:
    watermark = 0
    while (merge_chunk := chunk(*commits, watermark=watermark, max_rows=bound)) is not None:
        appended_rows = [rows for operation, rows in commits[watermark : merge_chunk.through] if operation == "append"]
        assert merge_chunk.through > watermark
        assert merge_chunk.rows == sum(appended_rows)
        assert merge_chunk.rows <= bound or len([rows for rows in appended_rows if rows]) == 1
        assert merge_chunk.is_last is (merge_chunk.through == len(commits))
        watermark = merge_chunk.through
    assert watermark == len(commits)
