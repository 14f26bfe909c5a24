"""Where old rows end, for each type and each way to partition by it; and what cannot have a time to live."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from catalog.errors import CommitRefused, Invalid
from catalog.iceberg.json import Json
from catalog.keyed.spec import KeySpec
from catalog.keyed.view_sql import Pair
from catalog.names import TableName
from catalog.retention.ttl import Cutoff, TtlPolicy, build_keyed_facts, check_takes_ttl, compute_ttl_cutoff
from firn.protocol.tasks.merge import BaseFacts, ChangeFacts, CleanTask, MergeMode, MergeTask

NOW = datetime(2026, 11, 21, 12, 34, 56, 789_000, tzinfo=UTC)
UTC_ZONE, BERLIN, AUCKLAND = ZoneInfo("UTC"), ZoneInfo("Europe/Berlin"), ZoneInfo("Pacific/Auckland")
POLICY = TtlPolicy(field="at", max_age=timedelta(days=10), zone=UTC_ZONE)


def a_table(kind: Any, *transforms: str) -> Json:
    return {
        "schemas": [{"schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "int", "required": True}, _at(kind)]}],
        "current-schema-id": 0,
        "partition-specs": [
            {"spec-id": 3, "fields": [{"source-id": 2, "transform": transform} for transform in transforms]}
        ],
        "default-spec-id": 3,
    }


def wall(year: int, month: int, day: int, *time: int) -> datetime:
    """A time on somebody's clock."""
    hour, minute, second, micros = time or (0, 0, 0, 0)
    return datetime(year, month, day, hour, minute, second, micros, UTC).replace(tzinfo=None)


def _at(kind: Any) -> Json:
    return {"id": 2, "name": "at", "type": kind, "required": False}


def cut(kind: str, *transforms: str, **changes: Any) -> Cutoff:
    return compute_ttl_cutoff(a_table(kind, *transforms), replace(POLICY, **changes), NOW)


@pytest.mark.parametrize(
    ("kind", "condition"),
    [
        ("timestamptz", "(`at` IS NOT NULL AND `at` < TIMESTAMP '2026-11-11 12:34:56.789000+00:00')"),
        ("timestamp", "(`at` IS NOT NULL AND `at` < TIMESTAMP_NTZ '2026-11-11 12:34:56.789000')"),
        ("date", "(`at` IS NOT NULL AND `at` < DATE '2026-11-11')"),
    ],
)
def test_rows_before_the_clocks_time_less_the_age_are_old(kind: str, condition: str) -> None:
    ttl_cut = cut(kind)
    assert (ttl_cut.condition(), ttl_cut.whole) == (condition, False)
    assert ttl_cut.condition("t").startswith("(t.`at` IS NOT NULL AND t.`at` < ")


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"firn.column.at.rule": "max"}, "the column has a rule"),
        ({"firn.group.g.columns": "v", "firn.group.g.sequence-field": "at"}, "the column is in a sequence group"),
        ({"firn.group.g.columns": "at", "firn.group.g.sequence-field": "v"}, "the column is in a sequence group"),
    ],
)
def test_a_column_whose_value_depends_on_others_is_no_age(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        compute_ttl_cutoff({**a_table("date"), "properties": properties}, POLICY, NOW)


def test_a_date_is_old_when_all_of_its_day_is() -> None:
    assert cut("date", max_age=timedelta(hours=12)).at == wall(2026, 11, 21)
    assert cut("date", max_age=timedelta(hours=13)).at == wall(2026, 11, 20)


def test_dates_and_times_without_a_zone_are_of_the_owners_clock() -> None:
    assert cut("timestamp", zone=BERLIN).at == wall(2026, 11, 11, 13, 34, 56, 789_000)
    assert cut("date", zone=AUCKLAND).at == wall(2026, 11, 12)
    assert cut("timestamptz", zone=AUCKLAND).at == cut("timestamptz").at


@pytest.mark.parametrize(
    ("transforms", "start"),
    [
        (["hour"], datetime(2026, 11, 11, 12, tzinfo=UTC)),
        (["day"], datetime(2026, 11, 11, tzinfo=UTC)),
        (["month"], datetime(2026, 11, 1, tzinfo=UTC)),
        (["year"], datetime(2026, 1, 1, tzinfo=UTC)),
        (["year", "day"], datetime(2026, 11, 11, tzinfo=UTC)),
    ],
)
def test_the_cutoff_is_where_a_partition_begins(transforms: list[str], start: datetime) -> None:
    ttl_cut = cut("timestamptz", *transforms)
    assert (ttl_cut.at, ttl_cut.whole) == (start, True)
    exact = cut("timestamptz", *transforms, whole_partitions=False)
    assert (exact.at, exact.whole) == (NOW - timedelta(days=10), False)


def test_partitions_of_one_value_lie_on_one_side_of_any_cutoff() -> None:
    ttl_cut = cut("timestamptz", "identity", whole_partitions=False)
    assert (ttl_cut.at, ttl_cut.whole) == (NOW - timedelta(days=10), True)
    assert cut("timestamptz", "bucket[4]").whole is False


def test_values_are_those_of_partitions_and_bounds() -> None:
    assert cut("date").value == 20_768
    assert cut("timestamp").value == cut("timestamptz").value == 1_794_400_496_789_000


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("string", "no order of times"),
        ("long", "milliseconds or something else"),
        ("timestamptz_ns", "no type of nanoseconds"),
        ("boolean", "that is no time"),
        ({"type": "struct", "fields": []}, "its type is struct"),
    ],
)
def test_a_column_that_tells_no_time_is_refused_with_the_reason(kind: Any, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        compute_ttl_cutoff(a_table(kind), POLICY, NOW)


def test_what_is_not_set_or_not_there_is_refused_with_the_reason() -> None:
    for changes, reason in (({"field": None}, "firn.ttl.field is not set"), ({"max_age": None}, "max-age is not set")):
        with pytest.raises(Invalid, match=reason):
            cut("date", **changes)
    with pytest.raises(Invalid, match="no column of that name"):
        cut("date", field="At")


def test_rows_of_a_table_that_is_linked_to_hive_are_not_deleted() -> None:
    with pytest.raises(CommitRefused, match="linked to Hive"):
        check_takes_ttl(TableName(("db",), "t"), hive_linked=True)


MERGE = MergeTask(
    pending=False,
    primary_key=["id"],
    columns=["id", "at"],
    base=BaseFacts(parts=["db", "t", "base"], snapshot_id=1, spec_id=0, specs=1, records=1, bytes=1),
    change=ChangeFacts(parts=["db", "t", "change"], snapshot_id=2),
    watermark=3,
    through=3,
    pending_rows=0,
    left_rows=0,
    scope="global",
    mode=MergeMode.AUTO,
    small_bytes=1,
    large_share=0.2,
    target_file_size=1,
    partition=None,
    sql={},
    clean=CleanTask(parts=["db", "t", "change"], through=3, keep_deletes=False, deletes_through=None),
)


def test_with_nothing_pending_there_is_nothing_to_merge() -> None:
    pair = Pair(
        spec=KeySpec(primary_key=("id",)),
        columns=["id", "at"],
        base="b",
        change="c",
        watermark=3,
        pending=False,
        folding=None,
    )
    facts = build_keyed_facts(pair, cut("date"), MERGE)
    assert (facts.concerned, facts.leaving) == (None, None)
