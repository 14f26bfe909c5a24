"""Locations: texts that name one, and what lies in one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.protocol.locations import lies_in, list_prefixes, list_spellings, may_be_same, normalize_location, overlaps

starts = st.sampled_from(["", "file:", "file://", "file://localhost", "s3://b/", "s3a://b/", "s3n://b/", "hdfs://n:1/"])
paths = st.lists(st.sampled_from(["/", "a", "b", ".", "..", "a b", "%41", "bucket", "//"]), max_size=6).map("".join)
locations = st.tuples(starts, paths).map("".join)


@given(locations)
def test_the_canonical_text_is_its_own(location: str) -> None:
    assert normalize_location(normalize_location(location)) == normalize_location(location)


@pytest.mark.parametrize("location", ["/t/a", "file:///t/a", "s3a://b/t/a", "hdfs://n:8020/t", "gs://b/t"])
def test_every_spelling_names_the_location_itself(location: str) -> None:
    assert {normalize_location(spelling) for spelling in list_spellings(location)} == {normalize_location(location)}
    assert {normalize_location(prefix) for prefix in list_prefixes(location)} == {normalize_location(location)}


def test_ways_to_write_one_place_are_one_place() -> None:
    """Peers took `s3a` and `s3`, or `file:/` and `file:///`, for two places, and deleted live files of the other."""
    for same in (("file:/t/a", "file:///t//a", "/t/a"), ("s3a://b/t/a", "s3://b/t/a", "s3n://b//t/./a")):
        assert len({normalize_location(location) for location in same}) == 1
    assert may_be_same("s3a://b/t/d=1%3A2/x", "s3://b/t/d=1:2/x")


def test_a_directory_whose_name_begins_alike_holds_nothing_of_the_other() -> None:
    assert not lies_in(normalize_location("s3://b/orders2/x"), normalize_location("s3a://b/orders/"))
    assert lies_in(normalize_location("s3://b/orders/x"), normalize_location("s3a://b/orders/"))
    assert overlaps(normalize_location("/w"), normalize_location("file:/w/t"))
    assert not overlaps(normalize_location("/w/t"), normalize_location("/w/u"))
