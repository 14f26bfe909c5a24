"""Counts of files, of any number of partitions, and which of them a job would pack."""

from __future__ import annotations

from typing import Any

from catalog.files.file_layout import FileLayout, LayoutCounter
from tests.catalog.files.listed_files import MIB, REWRITE, a_file

METADATA: Any = {
    "default-spec-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": [{"name": "p", "source-id": 2, "transform": "identity"}]}],
}
COMPACT = {"watermark": 3, "target_file_size": 64 * MIB, "min_files": 10, "pack_merged": True}


def test_changes_that_lie_alone_in_their_partitions_are_not_packed() -> None:
    counter = LayoutCounter(METADATA, COMPACT, 48 * MIB)
    counts = counter.compacted([a_file(number) for number in range(10)])
    assert (counts["small_files"], counts["partitions"], counts["planned"].files, counts["requested"].files) == (
        10,
        10,
        0,
        0,
    )
    together = LayoutCounter(METADATA, COMPACT, 48 * MIB).compacted([a_file() for _ in range(10)])
    assert (together["planned"].files, together["planned"].files_after) == (10, 1)


def test_a_table_of_very_many_partitions_is_a_few_numbers() -> None:
    counter = LayoutCounter(METADATA, REWRITE, 96 * MIB)
    counts = counter.rewritten(a_file(number // 2) for number in range(40_000))
    layout = FileLayout(snapshot_id=1, spec_id=0, epoch=0, rule=REWRITE, **counts)
    assert (layout.partitions, layout.requested.groups, layout.requested.saved_files) == (20_000, 20_000, 20_000)
    assert layout.planned.files == 0
    assert len(str(layout.as_json())) < 1_000
    assert FileLayout.from_json(layout.as_json()) == layout


def test_files_that_stay_as_many_are_not_counted_as_packable() -> None:
    """Iceberg takes two files of 77 MiB for enough content, and writes two of 77 MiB again: no reason for a job."""
    counts = LayoutCounter(METADATA, REWRITE, 96 * MIB).rewritten([a_file(size=77 * MIB) for _ in range(2)])
    assert (counts["planned"].files, counts["planned"].files_after, counts["planned"].packable_files) == (2, 2, 0)
