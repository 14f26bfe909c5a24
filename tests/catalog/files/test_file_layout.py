"""Counts of files, of any number of partitions, and which of them a job would pack."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.files.bin_packing import AppliedDeletes, RewriteRule
from catalog.files.file_layout import FileLayout, LayoutCounter
from catalog.files.manifest_entries import ManifestEntry

MIB = 2**20
METADATA: Any = {
    "default-spec-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": [{"name": "p", "source-id": 2, "transform": "identity"}]}],
}
REWRITE = {
    "target_file_size": 128 * MIB,
    "small_file_size": 96 * MIB,
    "min_files": 5,
    "max_delete_ratio": 0.2,
    "max_job_bytes": 2**34,
}
COMPACT = {"watermark": 3, "target_file_size": 64 * MIB, "min_files": 10, "pack_merged": True}


def a_file(partition: Any = "a", *, size: int = MIB, content: int = 0, **more: Any) -> ManifestEntry:
    fields: dict[str, Any] = {"spec_id": 0, "sequence_number": 5, "record_count": 100, "location": "f"} | more
    return ManifestEntry(content=content, size=size, partition=(partition,), **fields)


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


def test_a_small_file_size_beyond_the_target_is_no_more_than_the_target() -> None:
    rule = RewriteRule.of_task(REWRITE | {"small_file_size": 200 * MIB})
    assert rule.small_below == 128 * MIB - 1


@pytest.mark.parametrize(
    ("size", "files"), [(1, 1), (128, 1), (130, 1), (154, 2), (256, 2), (260, 2), (330, 3), (1290, 10)]
)
def test_a_group_becomes_as_many_files_as_iceberg_writes(size: int, files: int) -> None:
    assert RewriteRule.of_task(REWRITE).files_after(size * MIB) == files


def test_files_that_stay_as_many_are_not_counted_as_packable() -> None:
    """Iceberg takes two files of 77 MiB for enough content, and writes two of 77 MiB again: no reason for a job."""
    counts = LayoutCounter(METADATA, REWRITE, 96 * MIB).rewritten([a_file(size=77 * MIB) for _ in range(2)])
    assert (counts["planned"].files, counts["planned"].files_after, counts["planned"].packable_files) == (2, 2, 0)


@pytest.mark.parametrize(
    ("delete", "applies"),
    [
        ({"content": 1, "of": "f"}, True),
        ({"content": 1, "sequence_number": 5}, True),
        ({"content": 1, "sequence_number": 4}, False),
        ({"content": 2, "sequence_number": 6}, True),
        ({"content": 2, "sequence_number": 5}, False),
        ({"content": 2, "sequence_number": 9, "partition": "b"}, False),
    ],
)
def test_deletes_apply_to_older_files_of_their_partition(delete: dict[str, Any], applies: bool) -> None:  # noqa: FBT001
    deletes = AppliedDeletes()
    deletes.add(a_file(**delete))
    assert deletes.may_apply_to(a_file()) is applies
