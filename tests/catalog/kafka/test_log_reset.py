"""Resets: what a move of the position leaves out or brings again (docs/protocols.md, rule 6.15)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from catalog.commits.positions import KafkaPosition
from catalog.errors import Conflict, Invalid
from catalog.kafka.cluster import Offsets, Topic
from catalog.kafka.log_reset import LogReset, TableOrder, parse_reset_target, plan_reset
from catalog.kafka.log_state import compare_log

PLAIN = TableOrder(sequence_field=None, summed_columns=())


def plan(position: str, offsets: dict[int, int], order: TableOrder = PLAIN, topic_id: str = "a") -> LogReset:
    topic = Topic(name="orders", id="a", partitions={0: Offsets(5, 20), 1: Offsets(0, 10)})
    state = compare_log(topic, position, topic_id=topic_id, starts_latest=False, orders_by_field=True)
    return plan_reset(state, offsets, order)


def counts(reset: LogReset) -> list[tuple[int | None, int, int]]:
    return [(step.start, step.left_out, step.repeated) for step in reset.partitions]


def test_each_partition_is_counted_by_itself() -> None:
    assert counts(plan("orders:0:9,1:9", {0: 12, 1: 4})) == [(9, 3, 0), (9, 0, 5)]


def test_records_that_the_topic_no_longer_has_count_as_left_out() -> None:
    assert counts(plan("orders:0:2,1:0", {0: 6, 1: 0})) == [(2, 4, 0), (0, 0, 0)]


def test_a_new_partition_begins_at_its_first_record() -> None:
    assert counts(plan("orders:0:9", {0: 9, 1: 3})) == [(9, 0, 0), (0, 3, 0)]


def test_before_the_first_drain_the_start_of_the_log_counts() -> None:
    assert counts(plan("none", {0: 8, 1: 0})) == [(5, 3, 0), (0, 0, 0)]


def test_the_position_of_another_topic_counts_for_nothing() -> None:
    reset = plan("orders:0:9,1:9", {0: 9, 1: 9}, topic_id="b")
    assert counts(reset) == [(None, 4, 0), (None, 9, 0)]
    assert "records of the old topic" in reset.warnings[0]


def test_where_the_position_is_already_nothing_is_reset() -> None:
    with pytest.raises(Conflict, match="already"):
        plan("orders:0:9,1:9", {0: 9, 1: 9})


@pytest.mark.parametrize("offset", [5, 20])
def test_offsets_that_the_topic_has_are_taken(offset: int) -> None:
    assert plan("none", {0: offset, 1: 0}).end == f"orders:0:{offset},1:0"


@pytest.mark.parametrize("offset", [4, 21])
def test_offsets_that_the_topic_does_not_have_are_refused(offset: int) -> None:
    with pytest.raises(Invalid, match=f"no offset {offset} to read from"):
        plan("none", {0: offset, 1: 0})


def test_warnings_tell_what_old_changes_do_to_newer_rows() -> None:
    ordered = TableOrder(sequence_field="at", summed_columns=("total",))
    text = " ".join(plan("orders:0:9,1:9", {0: 9, 1: 0}, ordered).warnings)
    assert ["count twice, in columns total" in text, "newer rows stay, because at orders" in text] == [True, True]
    assert "win over newer ones" in plan("orders:0:9,1:9", {0: 9, 1: 0}).warnings[-1]
    inserts = TableOrder(sequence_field=None, summed_columns=(), is_insert_only=True)
    assert "stay as they are" in plan("orders:0:9,1:9", {0: 9, 1: 0}, inserts).warnings[-1]


def test_targets() -> None:
    assert parse_reset_target("latest") == "latest"
    assert parse_reset_target("orders:0:1") == KafkaPosition("orders", {0: 1})
    assert parse_reset_target("2026-11-21T10:30:00+01:00") == datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
    with pytest.raises(Invalid, match="is no target"):
        parse_reset_target("0001-01-01T00:00:00+14:00")
