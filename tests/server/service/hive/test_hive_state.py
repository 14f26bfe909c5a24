"""Whether Hive has changed a partition since the last sync, from its signals and its listing."""

from __future__ import annotations

import pytest

from catalog.hive.baseline import ChangeSignals, PartitionBaseline, WatchedDirectory
from catalog.hive.listing import ListedFile, Listing, Subdirectories
from catalog.hive.publishing import build_publishing_baseline
from server.service.hive.hive_state import find_moved, is_written_to

OLD, NEW = ChangeSignals(location="file:/t/p=x"), ChangeSignals(location="file:///w/p=x")
FILE = ListedFile("a", 1, 1)
PUBLISHED = WatchedDirectory(location="file:/w/p=x", files=(), published_through=1, since_ns=0)
OPEN = PartitionBaseline(signals=OLD, files=(FILE,), publishing=PUBLISHED)


def test_partitions_that_are_there_though_they_were_not_to_be_have_been_made() -> None:
    new = build_publishing_baseline(PUBLISHED, 0)
    known = {"p=x": OPEN, "p=new": new, "p=gone": OPEN, "p=y": OPEN}
    assert find_moved(known, {"p=x": OLD, "p=new": OLD, "p=y": NEW}) == {"p=new", "p=gone", "p=y"}
    assert find_moved({"p=x": OPEN, "p=new": new}, {"p=x": OLD}) == set()


@pytest.mark.parametrize(
    ("files", "below", "subdirectories", "is_written"),
    [
        ((FILE,), (), Subdirectories.ASK, False),
        ((), (), Subdirectories.ASK, True),
        ((FILE, ListedFile("b", 1, 1)), (), Subdirectories.ASK, True),
        ((ListedFile("a", 2, 1),), (), Subdirectories.ASK, True),
        ((FILE,), ("sub",), Subdirectories.ASK, True),
        ((FILE,), ("sub",), Subdirectories.IGNORE, False),
    ],
)
def test_a_directory_with_other_files_or_a_new_unclear_directory_was_written_to(
    files: tuple[ListedFile, ...], below: tuple[str, ...], subdirectories: Subdirectories, *, is_written: bool
) -> None:
    listing = Listing(location=OLD.location, files=files, began_ns=9, subdirectories=below)
    assert is_written_to(OPEN, listing, subdirectories) is is_written
