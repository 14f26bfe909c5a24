"""What a publish may put in the place of which files."""

from __future__ import annotations

from catalog.hive.publishing import fingerprint_files, stays
from tests.catalog.hive.live_files import a_file

DATA, POSITIONS, EQUALITY = a_file("d", 10), a_file("p", 2, content=1), a_file("e", 1, content=2)


def test_a_partition_has_changed_when_any_file_of_it_has() -> None:
    before = fingerprint_files([DATA, POSITIONS], {("x",)})
    assert fingerprint_files([POSITIONS, DATA, a_file("o", 3, partition="y")], {("x",)}) == before
    for now in ([DATA], [DATA, POSITIONS, EQUALITY], [DATA, a_file("p", 3, content=1)]):
        assert fingerprint_files(now, {("x",)}) != before


def test_only_data_that_came_since_stays_beside_what_was_written() -> None:
    assert [stays(file, 0) for file in (DATA, POSITIONS, EQUALITY)] == [True, False, False]
    assert not any(stays(file, 1) for file in (DATA, POSITIONS, EQUALITY))
