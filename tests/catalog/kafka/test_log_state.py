"""Where a log stands: what a drain reads next, and why it stops (docs/protocols.md, rules 6.4 and 6.5)."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.kafka.cluster import Offsets, Topic
from catalog.kafka.log_state import LogProblemKind, LogState, compare_log


def compare(position: str, partitions: dict[int, tuple[int, int]], **more: Any) -> LogState:
    topic = Topic(name="orders", id="a", partitions={number: Offsets(*bounds) for number, bounds in partitions.items()})
    options: dict[str, Any] = {"topic_id": "a", "starts_latest": False, "orders_by_field": False} | more
    return compare_log(topic, position, **options)


def test_the_first_drain_begins_at_the_start_of_the_topic_or_at_its_end() -> None:
    earliest = compare("none", {0: (5, 9), 1: (0, 0)})
    assert (earliest.start, earliest.end, earliest.lag) == ({0: 5, 1: 0}, {0: 9, 1: 0}, 4)
    latest = compare("none", {0: (5, 9), 1: (0, 0)}, starts_latest=True)
    assert (latest.start_position, latest.lag) == ("orders:0:9,1:0", 0)
    since = compare("none", {0: (5, 9), 1: (2, 4), 2: (1, 3)}, first_offsets={0: 7, 1: 0})
    assert since.start_position == "orders:0:7,1:2,2:1", "dropped records and a new partition begin at the earliest"
    assert compare("orders:0:6", {0: (5, 9)}, first_offsets={0: 8}).start_position == "orders:0:6"


def test_a_drain_reads_from_the_position_to_the_last_stable_offset() -> None:
    state = compare("orders:0:7,1:3", {1: (0, 3), 0: (5, 9)})
    assert (dict(state.start), dict(state.end), state.problem) == ({0: 7, 1: 3}, {0: 9, 1: 3}, None)


def test_records_that_are_gone_are_counted() -> None:
    state = compare("orders:0:2,1:3", {0: (5, 9), 1: (4, 4)})
    assert state.problem is not None
    assert (state.problem.kind, state.problem.lost) == (LogProblemKind.RECORDS_GONE, 4)
    assert "offsets of partition 0: 2 to 5, 1: 3 to 4" in state.problem.message
    assert state.start_position == "orders:0:5,1:4"


@pytest.mark.parametrize(
    ("position", "partitions", "topic_id"),
    [
        ("orders:0:10", {0: (0, 9)}, "a"),  # it ends before the position
        ("orders:0:5,1:5", {0: (0, 9)}, "a"),  # it has fewer partitions
        ("orders:0:5", {0: (0, 9)}, "b"),  # only its id tells
        ("other:0:5", {0: (0, 9)}, "a"),
        ("some text", {0: (0, 9)}, "a"),
    ],
)
def test_a_topic_that_was_created_again(position: str, partitions: dict[int, tuple[int, int]], topic_id: str) -> None:
    state = compare(position, partitions, topic_id=topic_id)
    assert state.problem is not None
    assert (state.problem.kind, state.problem.lost) == (LogProblemKind.TOPIC_REPLACED, None)
    assert state.start_position == "orders:0:0"


def test_new_partitions_stop_tables_whose_changes_only_offsets_order() -> None:
    state = compare("orders:0:5", {0: (0, 9), 1: (0, 2)})
    assert state.problem is not None
    assert state.problem.kind is LogProblemKind.PARTITIONS_ADDED
    assert state.start_position == "orders:0:5,1:0"
    ordered = compare("orders:0:5", {0: (0, 9), 1: (0, 2)}, orders_by_field=True)
    assert (ordered.problem, ordered.lag) == (None, 6)


def test_the_position_of_an_unknown_topic_id_is_trusted() -> None:
    assert compare("orders:0:5", {0: (0, 9)}, topic_id=None).problem is None
