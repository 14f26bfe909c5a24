"""Bin-packing: the sizes that a rewrite takes and leaves, and the deletes that count for a file."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.files.bin_packing import AppliedDeletes, RewriteRule
from tests.catalog.files.listed_files import MIB, REWRITE, a_file


def test_a_small_file_size_beyond_the_target_is_no_more_than_the_target() -> None:
    rule = RewriteRule.of_task(REWRITE | {"small_file_size": 200 * MIB})
    assert rule.small_below == 128 * MIB - 1


@pytest.mark.parametrize(
    ("size", "files"), [(1, 1), (128, 1), (130, 1), (154, 2), (256, 2), (260, 2), (330, 3), (1290, 10)]
)
def test_a_group_becomes_as_many_files_as_iceberg_writes(size: int, files: int) -> None:
    assert RewriteRule.of_task(REWRITE).files_after(size * MIB) == files


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
