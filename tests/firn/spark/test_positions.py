from __future__ import annotations

import pytest

from firn.spark.positions import TopicPosition, read_offsets


def at(**offsets: int) -> TopicPosition:
    return TopicPosition("orders", {int(name[1:]): offset for name, offset in offsets.items()})


def test_a_position_is_written_as_the_server_compares_it() -> None:
    position = TopicPosition("orders.v1", {10: 7, 2: 0, 1: 1512})
    assert str(position) == "orders.v1:1:1512,2:0,10:7"
    assert TopicPosition.parse(str(position)) == position
    assert position.starting_offsets() == '{"orders.v1": {"1": 1512, "2": 0, "10": 7}}'
    assert TopicPosition("t", {0: 5}).starting_offsets(3) == '{"t": {"0": 5, "1": 0, "2": 0}}'


@pytest.mark.parametrize("text", ["none", "orders", "orders:0", "orders:0:1;1:2", "a b:0:1", "orders:0:x"])
def test_another_form_is_no_position_of_a_topic(text: str) -> None:
    assert TopicPosition.parse(text) is None


def test_a_partition_that_came_later_begins_at_0() -> None:
    assert at(_0=5).is_at(at(_0=5, _1=0))
    assert not at(_0=5).is_at(at(_0=5, _1=1))
    assert at(_0=5).is_within(at(_0=5, _1=1))
    assert not at(_0=5, _1=1).is_within(at(_0=9))
    assert at(_0=5, _1=1).count_since(at(_0=3)) == 3
    assert at(_0=5, _1=1).count_since(None) == 6


def test_the_offset_log_names_the_topics_of_the_only_source() -> None:
    assert read_offsets('[{"orders":{"0":48,"1":52}}]') == [at(_0=48, _1=52)]
    assert read_offsets('{"orders":{"0":48}}') == [at(_0=48)]
    assert read_offsets('[{"orders":{"0":1},"items":{"0":2}}]') == [at(_0=1), TopicPosition("items", {0: 2})]


@pytest.mark.parametrize(
    "entry", [None, "", "[-]", "[17]", '[{"orders":{"0":1}}, {"items":{"0":2}}]', '[{"version":1,"snapshot":{}}, 3]',
              '[{"logOffset":5}]', '[{"orders":{"0":-1}}]', "[]", "{}"]
)  # fmt: skip
def test_other_sources_have_no_positions(entry: str | None) -> None:
    assert read_offsets(entry) is None
