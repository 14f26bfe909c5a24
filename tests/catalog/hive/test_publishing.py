"""What a publish may put in the place of which files."""

from __future__ import annotations

import pytest

from catalog.errors import Conflict
from catalog.files.data_file import LiveFile
from catalog.hive.publishing import check_rows, fingerprint_files, stays


def a_file(location: str, rows: int, *, content: int = 0, partition: str = "x") -> LiveFile:
    return LiveFile(
        location=location,
        content=content,
        size=1,
        record_count=rows,
        partition=(partition,),
        spec_id=0,
        sequence_number=1,
        manifest="m",
    )


DATA, POSITIONS, EQUALITY = a_file("d", 10), a_file("p", 2, content=1), a_file("e", 1, content=2)


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


def test_a_partition_has_changed_when_any_file_of_it_has() -> None:
    before = fingerprint_files([DATA, POSITIONS], {("x",)})
    assert fingerprint_files([POSITIONS, DATA, a_file("o", 3, partition="y")], {("x",)}) == before
    for now in ([DATA], [DATA, POSITIONS, EQUALITY], [DATA, a_file("p", 3, content=1)]):
        assert fingerprint_files(now, {("x",)}) != before


def test_only_data_that_came_since_stays_beside_what_was_written() -> None:
    assert [stays(file, 0) for file in (DATA, POSITIONS, EQUALITY)] == [True, False, False]
    assert not any(stays(file, 1) for file in (DATA, POSITIONS, EQUALITY))
