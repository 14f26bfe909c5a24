"""The report about slow folders and tests."""

from __future__ import annotations

from tests.folder_times import SHOWN, summarize


def test_folders_are_summed_and_the_slowest_come_first() -> None:
    seconds = {
        "tests/catalog/test_a.py::test_x": 1.0,
        "tests/server/service/hive/test_b.py::test_y[sqlite]": 3.0,
        "tests/server/service/test_c.py::test_z": 2.0,
    }
    assert summarize(seconds) == [
        "seconds of tests, summed over processes:",
        "      5 s      2 tests  tests/server/service",
        "      1 s      1 tests  tests/catalog",
        "      3 s  tests/server/service/hive/test_b.py::test_y[sqlite]",
        "      2 s  tests/server/service/test_c.py::test_z",
        "      1 s  tests/catalog/test_a.py::test_x",
    ]


def test_a_report_has_few_lines() -> None:
    seconds = {f"tests/folder{number}/test_a.py::test": float(number) for number in range(100)}
    assert len(summarize(seconds)) == 1 + 2 * SHOWN
