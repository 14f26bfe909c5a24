"""What is packed with what: file sizing of change stores, among it cases known from other table formats.

The cases are the published ones of Hudi's merge-on-read tables at a tenth of their sizes, in hundredths of a MiB. What
they show of inserts has no counterpart here: writers append and look for no file to fill, so there is no record size to
estimate wrongly, no bucket to overfill, and no big file that could get an insert.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from catalog.files.change_packing import SMALL_SHARE, ChangeFile, Pack, pack_files

TARGET = 2_500


def files(*sizes: int, first: int = 1) -> list[ChangeFile]:
    """One file for each commit, the oldest first."""
    return [ChangeFile(number, size, number) for number, size in enumerate(sizes, start=first)]


def packed(*sizes: int, watermark: int = 0, least: int = 2, target: int = TARGET) -> list[list[int]]:
    """The numbers of the files of each pack."""
    packs = pack_files(files(*sizes), watermark=watermark, target_bytes=target, min_files=least)
    return [[file.number for file in pack.files] for pack in packs]


def test_two_small_updates_become_one_file_and_a_third_one_with_them_again() -> None:
    assert packed(8, 12) == [[1, 2]]
    assert packed(20, 8) == [[1, 2]]


def test_an_update_of_everything_rolls_over_at_the_target() -> None:
    """Of 3,070 in ten commits: a full file and the rest, neither over the target."""
    packs = packed(*[307] * 10)
    assert packs == [[1, 2, 3, 4, 5, 6, 7, 8], [9, 10]]
    assert [sum(307 for _ in pack) for pack in packs] == [2_456, 614]


def test_a_full_file_gets_nothing_more() -> None:
    assert packed(2_456, 8) == []
    assert packed(2_456, 8, 12) == [[2, 3]]
    assert packed(2_680, 8, 12) == [[2, 3]]


def test_the_newest_files_wait_until_there_are_enough() -> None:
    assert packed(8, 8, 8, least=4) == []
    assert packed(8, 8, 8, 8, least=4) == [[1, 2, 3, 4]]
    assert packed(*[307] * 10, least=4) == [[1, 2, 3, 4, 5, 6, 7, 8]]


def test_the_watermark_parts_the_files() -> None:
    assert packed(8, 8, 8, 8, 8, watermark=2) == [[1, 2], [3, 4, 5]]
    assert packed(8, 8, 8, watermark=2) == [[1, 2]]


def test_a_file_that_fits_beside_no_other_stays_alone() -> None:
    assert packed(1_800, 1_800, 1_800) == []


SIZES = st.lists(st.integers(1, 3_000), max_size=40)


@given(SIZES, st.integers(0, 45), st.integers(2, 12))
def test_packs_stay_within_their_bounds(sizes: list[int], watermark: int, least: int) -> None:
    given_files = files(*sizes)
    packs: list[Pack] = pack_files(given_files, watermark=watermark, target_bytes=TARGET, min_files=least)
    used = [file for pack in packs for file in pack.files]
    assert len(set(used)) == len(used)
    assert set(used) <= set(given_files)
    for pack in packs:
        assert len(pack.files) > 1
        assert pack.bytes <= TARGET
        assert {file.number > watermark for file in pack.files} == {pack.is_pending}
        assert all(file.bytes < SMALL_SHARE * TARGET for file in pack.files)
        assert pack.number == pack.files[-1].number
    for is_pending in (False, True):
        left = [file for file in given_files if file not in used and (file.number > watermark) is is_pending]
        newest = max((pack.number for pack in packs if pack.is_pending is is_pending), default=0)
        open_files = [
            packed_file
            for packed_file in left
            if packed_file.number > newest and packed_file.bytes < SMALL_SHARE * TARGET
        ]
        assert len(open_files) < least or sum(open_file.bytes for open_file in open_files) > TARGET
