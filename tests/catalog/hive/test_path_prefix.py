"""Directories in each other."""

from __future__ import annotations

from catalog.hive.path_prefix import find_innermost, group_nested


def test_directories_in_each_other_are_found_however_they_are_spelled() -> None:
    places = ["file:/t/a/b/c", "s3a://b/t", "file:///t/a", "file:/t/ab", "/t/a/b", "s3://b/t/x/", "hdfs://n/t"]
    assert sorted(sorted(group) for group in group_nested(places)) == [[0, 2, 4], [1, 5]]
    assert list(group_nested(["file:/t/p=1", "file:/t/p=10", "file:/t/p=1-x"])) == []
    assert list(group_nested([])) == []


def test_the_innermost_place_decides() -> None:
    places = {"/t", "/t/a/b"}
    assert find_innermost("/t/a/b/c", places) == "/t/a/b"
    assert find_innermost("/t/a", places) == "/t"
    assert find_innermost("/u/a", places) is None
