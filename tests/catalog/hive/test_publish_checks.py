"""What a publish job may commit: all of its rows, for files and columns that are still those which it read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from catalog.errors import Conflict
from catalog.files.data_file import LiveFile
from catalog.hive.checkpoint import PublishPlan
from catalog.hive.publish_checks import check_complete, check_rows, check_unmoved
from catalog.hive.publishing import fingerprint_files
from catalog.iceberg.json import Json
from tests.catalog.hive.live_files import a_file

DATA, POSITIONS, EQUALITY = a_file("d", 10), a_file("p", 2, content=1), a_file("e", 1, content=2)
X = ("x",)
PLAN = PublishPlan(
    task={}, head=7, sequence=3, schema_id=1, through=0, same=(), files=fingerprint_files([DATA, POSITIONS], {X})
)


def metadata(head: int, schema_id: int = 1) -> Json:
    main = {"snapshot-id": head, "type": "branch"}
    return {"current-schema-id": schema_id, "refs": {"main": main}, "current-snapshot-id": head}


@pytest.mark.parametrize(
    ("files", "least", "most"),
    [((), 0, 0), ((DATA,), 10, 10), ((DATA, POSITIONS), 8, 10), ((DATA, EQUALITY), 0, 10)],
)
def test_no_fewer_rows_are_written_than_the_files_must_hold(files: tuple[LiveFile, ...], least: int, most: int) -> None:
    check_rows(least, files)
    check_rows(most, files)
    for written in (least - 1, most + 1):
        with pytest.raises(Conflict, match=f"{written} rows were written"):
            check_rows(written, files)


def test_the_listing_has_each_written_row() -> None:
    check_complete(3, 3)
    with pytest.raises(Conflict, match="wrote 4 rows, but the files that the server lists hold 3"):
        check_complete(4, 3)


@pytest.mark.parametrize("is_keyed", [True, False])
def test_columns_may_not_change_during_the_job(*, is_keyed: bool) -> None:
    check_unmoved(PLAN, metadata(7), [DATA, POSITIONS], {X}, is_keyed=is_keyed)
    with pytest.raises(Conflict, match="columns have changed"):
        check_unmoved(PLAN, metadata(7, schema_id=2), [DATA, POSITIONS], {X}, is_keyed=is_keyed)


def test_base_may_not_move_during_the_job() -> None:
    with pytest.raises(Conflict, match="base has changed"):
        check_unmoved(PLAN, metadata(8), [DATA, POSITIONS], {X}, is_keyed=True)


@pytest.mark.parametrize("files", [(DATA,), (DATA, POSITIONS, EQUALITY), (replace(DATA, record_count=9), POSITIONS)])
def test_others_may_change_other_partitions_of_a_plain_table(files: Sequence[LiveFile]) -> None:
    check_unmoved(PLAN, metadata(8), [DATA, POSITIONS, a_file("o", 3, partition="y")], {X}, is_keyed=False)
    with pytest.raises(Conflict, match="a partition has changed in Firn"):
        check_unmoved(PLAN, metadata(8), files, {X}, is_keyed=False)
