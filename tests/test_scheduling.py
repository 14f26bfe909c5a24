"""Processes of the second tier stay in a folder, whose parts its files share."""

from __future__ import annotations

from tests.scheduling import choose_file

HIVE = ["tests/integration/hive/test_a.py", "tests/integration/hive/threeway/test_b.py"]
BENCH = ["tests/integration/bench/test_a.py"]
KEYED = ["tests/integration/keyed/test_a.py"]
SERVER = ["tests/server/api/test_a.py"]
FILES = [*BENCH, *HIVE, *KEYED, *SERVER]
IN_HIVE, IN_KEYED, IN_BENCH = "tests/integration/hive/", "tests/integration/keyed/", "tests/integration/bench/"


def test_a_process_begins_with_a_long_folder_that_nobody_has_begun() -> None:
    assert choose_file(FILES, None, [], is_light=False) == HIVE[0]
    assert choose_file(FILES, None, [IN_HIVE], is_light=False) == KEYED[0]
    assert choose_file(FILES, None, [IN_HIVE, IN_KEYED], is_light=False) == BENCH[0]


def test_it_stays_where_it_is() -> None:
    assert choose_file([*BENCH, *HIVE[1:], *KEYED], IN_HIVE, [IN_KEYED], is_light=False) == HIVE[1]
    assert choose_file(FILES, IN_BENCH, [IN_HIVE], is_light=False) == BENCH[0]


def test_it_helps_where_most_is_left() -> None:
    assert choose_file([*KEYED, *HIVE], IN_BENCH, [IN_HIVE, IN_KEYED], is_light=False) == HIVE[0]


def test_the_light_process_begins_with_light_files_and_never_gets_heavy_ones() -> None:
    assert choose_file(FILES, None, [], is_light=True) == SERVER[0]
    assert choose_file([*BENCH, *HIVE], "tests/server/api/", [], is_light=True) == BENCH[0]
    assert choose_file(HIVE, IN_BENCH, [], is_light=True) is None


def test_others_get_light_files_last() -> None:
    assert choose_file([*SERVER, *KEYED], None, [IN_KEYED], is_light=False) == KEYED[0]
    assert choose_file(SERVER, None, [], is_light=False) == SERVER[0]
