"""Predicates for whole partitions."""

from __future__ import annotations

import pytest

from firn.protocol.tasks.merge import PartitionField
from optimizer.partitions import MAX_PARTITIONS, predicate


def a_field(column: str = "p", transform: str = "identity", type: str = "string") -> PartitionField:
    return PartitionField(column=column, transform=transform, type=type)


def test_null_has_a_term_of_its_own() -> None:
    sql = predicate([a_field()], ["string"], [("a",), (None,), ("b",)])
    assert sql == "(((`p` IS NULL) OR (`p` IN ('a', 'b'))))"


def test_values_cannot_end_their_literals() -> None:
    assert predicate([a_field()], ["string"], [("it's \\",)]) == r"((`p` IN ('it\'s \\')))"


def test_partitions_that_share_a_prefix_are_one_term() -> None:
    fields = [a_field("month", type="int"), a_field("day", type="int")]
    days = [("1", str(day)) for day in (1, 2, 3)]
    sql = predicate(fields, ["int", "int"], days, alias="t")
    assert sql is not None
    assert sql.count("t.`month`") == sql.count("t.`day`") == 1


@pytest.mark.parametrize(
    ("transform", "type", "value", "start", "end"),
    [
        ("day", "date", "2024-02-29", "CAST('2024-02-29' AS DATE)", "CAST('2024-03-01' AS DATE)"),
        ("month", "date", "-1", "CAST('1969-12-01' AS DATE)", "CAST('1970-01-01' AS DATE)"),
        ("year", "timestamp", "-1", "'1969-01-01 00:00:00' AS TIMESTAMP_NTZ", "'1970-01-01 00:00:00' AS TIMESTAMP_NTZ"),
        ("hour", "timestamptz", "25", "'1970-01-02 01:00:00' AS TIMESTAMP)", "'1970-01-02 02:00:00' AS TIMESTAMP)"),
        ("day", "timestamptz", "0987-01-01", "'0987-01-01 00:00:00' AS", "'0987-01-02 00:00:00' AS"),
    ],
)
def test_a_time_partition_is_from_its_start_to_the_next_ones(
    transform: str, type: str, value: str, start: str, end: str
) -> None:
    sql = predicate([a_field("at", transform, type)], ["int"], [(value,)])
    assert sql is not None
    low, high = sql.split(" AND ")
    assert low.startswith("(((`at` >= ")
    assert start in low
    assert high.startswith("`at` < ")
    assert end in high


def test_no_partition_is_no_row() -> None:
    assert predicate([a_field()], ["string"], []) == "false"


def test_what_python_cannot_say_or_nobody_wants_to_read_has_no_predicate() -> None:
    assert predicate([a_field("at", "day", "date")], ["date"], [("+10000-01-01",)]) is None
    assert predicate([a_field("at", "year", "date")], ["int"], [("8029",)]) is None
    assert predicate([a_field()], ["string"], [(str(n),) for n in range(MAX_PARTITIONS + 1)]) is None
