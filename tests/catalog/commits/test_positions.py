"""Positions as text: what the server reads in them, and what it refuses (docs/protocols.md, rule 6.1)."""

from __future__ import annotations

import pytest

from catalog.commits.positions import (
    LONGEST_POSITION,
    MOST_PARTITIONS,
    KafkaPosition,
    check_position,
    check_step,
    show_difference,
)
from catalog.errors import Invalid


def topic(partitions: int, offset: int = 0, name: str = "orders") -> str:
    return f"{name}:" + ",".join(f"{partition}:{offset}" for partition in range(partitions))


def test_a_position_of_a_topic_has_the_next_offset_of_each_partition() -> None:
    assert KafkaPosition.parse("orders.eu:0:1488,1:1512") == KafkaPosition("orders.eu", {0: 1488, 1: 1512})


@pytest.mark.parametrize("position", ["none", "mysql-bin.000003:154", "16/B374D848", "7", "3E11FA47:1-5,3E11FA48:1-7"])
def test_positions_of_other_sources_are_any_text(position: str) -> None:
    assert check_position("firn.position", position) == position
    assert KafkaPosition.parse(position) is None
    check_step(position, "later")


@pytest.mark.parametrize(
    ("position", "reason"),
    [
        ("", "is not a text"),
        (None, "is not a text"),
        (7, "is not a text"),
        (["orders:0:1"], "is not a text"),
        ("a\x00b", "cannot be printed"),
        ("a\nb", "cannot be printed"),
        ("\ud800", "cannot be printed"),
        ("x" * (LONGEST_POSITION + 1), "has 32769 characters; the most are 32768"),
        (topic(MOST_PARTITIONS + 1), "names 1001 partitions of topic orders; the most are 1000"),
        ("orders:1:5,0:7", "not in ascending order"),
        ("orders:0:5,0:7", "not in ascending order"),
        ("orders:0:9223372036854775808", "is not a number from 0 to 9223372036854775807"),
        ("orders:2147483648:0", "is not a number from 0 to 2147483647"),
        ("orders:0:" + "9" * 5_000, "is not a number"),
        ("orders:0:007", "without leading zeros"),
    ],
)
def test_hostile_positions_are_refused_with_the_reason(position: object, reason: str) -> None:
    with pytest.raises(Invalid, match=reason) as caught:
        check_position("firn.position", position)
    assert len(caught.value.message) < 600


def test_a_position_of_the_most_partitions_fits() -> None:
    longest = topic(MOST_PARTITIONS, offset=2**63 - 1, name="t" * 249)
    assert check_position("firn.position", longest) == longest


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("none", "orders:0:5"),
        ("orders:0:5", "orders:0:5"),
        ("orders:0:5", "orders:0:9,1:0"),  # somebody has added a partition
    ],
)
def test_a_commit_goes_forward_in_a_topic(start: str, end: str) -> None:
    check_step(start, end)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("orders:0:4,1:9", "begins at offset 5 of partition 0 of orders, and ends at 4"),
        ("orders:1:9", "begins at offset 5 of partition 0 of orders, and does not name it"),
        ("other:0:5,1:9", "goes from topic orders to topic other"),
    ],
)
def test_a_commit_never_goes_back_or_loses_a_partition(end: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        check_step("orders:0:5,1:8", end)


def test_a_message_shows_where_two_long_positions_differ() -> None:
    same = topic(400)
    shown, other = show_difference(f"{same},400:17", f"{same},400:18")
    assert shown.endswith("400:17'")
    assert other.endswith("400:18'")
    assert len(shown) < 100
    assert show_difference("none", "orders:0:1") == ("'none'", "'orders:0:1'")
