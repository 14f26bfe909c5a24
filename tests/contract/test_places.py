"""What lies below a table's location is decided on both sides: two copies, for neither may import the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from catalog import places as server
from firn import places as optimizer

schemes = st.sampled_from(["", "file:", "file://", "file://localhost", "s3://", "s3a://", "s3n://", "hdfs://", "gs://"])
paths = st.lists(st.sampled_from(["/", "a", "b", ".", "..", "a b", "%41", "bucket", "//"]), max_size=6).map("".join)
locations = st.tuples(schemes, paths).map("".join)


@given(locations)
def test_both_sides_write_a_place_alike(location: str) -> None:
    assert optimizer.canonical(location) == server.canonical(location)


@given(locations, locations)
def test_both_sides_agree_on_what_lies_in_a_place(one: str, other: str) -> None:
    pair = server.canonical(one), server.canonical(other)
    assert optimizer.lies_in(*pair) == server.lies_in(*pair)


def test_ways_to_write_one_place_are_one_place() -> None:
    """Peers took `s3a` and `s3`, or `file:/` and `file:///`, for two places, and deleted live files of the other."""
    for same in (("file:/t/a", "file:///t//a", "/t/a"), ("s3a://b/t/a", "s3://b/t/a", "s3n://b//t/./a")):
        assert len({optimizer.canonical(one) for one in same}) == 1
    assert optimizer.may_be_same("s3a://b/t/d=1%3A2/x", "s3://b/t/d=1:2/x")
    assert not optimizer.lies_in(optimizer.canonical("s3://b/orders2/x"), optimizer.canonical("s3a://b/orders/"))
