"""Tags by schedule: which are made, of what, and which are dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.policy.schedule import Schedule, parse_tag_name
from catalog.retention.tags import TagPlan, TagPolicy, plan_tags
from catalog.timestamps import to_milliseconds
from firn.protocol.tasks.retention import NewTag

NOW = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)
DAILY = TagPolicy(schedule=Schedule("0 0 * * *"), name="auto-%Y-%m-%d", max_age=timedelta(days=7), zone=ZoneInfo("UTC"))


def a_table(heads: Mapping[int, datetime], refs: Mapping[str, Json] | None = None, gone: Sequence[int] = ()) -> Json:
    return {
        "snapshots": [
            {"snapshot-id": head, "timestamp-ms": to_milliseconds(at) + head}
            for head, at in heads.items()
            if head not in gone
        ],
        "snapshot-log": [
            {"snapshot-id": head, "timestamp-ms": to_milliseconds(at) + head} for head, at in heads.items()
        ],
        "refs": dict(refs or {}),
    }


def day(number: int, hour: int = 12) -> datetime:
    return datetime(2026, 11, number, hour, tzinfo=UTC)


def plan_new_tags(metadata: Json, policy: TagPolicy = DAILY, now: datetime = NOW) -> dict[str, int]:
    return {tag.name: tag.snapshot_id for tag in plan_tags(metadata, policy, now).make}


def tagged(metadata: Json, plan: TagPlan) -> Json:
    """The table once the job has committed."""
    refs = {name: ref for name, ref in metadata["refs"].items() if name not in plan.drop}
    new = {
        tag.name: {"type": "tag", "snapshot-id": tag.snapshot_id, "max-ref-age-ms": tag.max_ref_age_ms}
        for tag in plan.make
    }
    return metadata | {"refs": refs | new}


def test_the_first_tag_is_of_the_last_scheduled_moment_alone() -> None:
    assert plan_new_tags(a_table({1: day(1), 2: day(19), 3: day(21, 9)})) == {"auto-2026-11-21": 2}


def test_a_moment_without_any_commit_has_its_tag_all_the_same() -> None:
    """A peer looked for a commit in a window after the moment, and left a silent gap where there was none."""
    metadata = a_table({1: day(1)})
    for number in (21, 22, 23):
        now = day(number, 1)
        plan = plan_tags(metadata, DAILY, now)
        assert [tag.name for tag in plan.make] == [f"auto-2026-11-{number}"]
        metadata = tagged(metadata, plan)


def test_moments_that_were_slept_through_are_made_up_for_with_what_was_current_then() -> None:
    metadata = a_table({1: day(14), 2: day(16), 3: day(18), 4: day(20)})
    metadata = tagged(metadata, plan_tags(metadata, DAILY, day(17, 1)))
    assert metadata["refs"].keys() == {"auto-2026-11-17"}
    expected_tags = {"auto-2026-11-18": 2, "auto-2026-11-19": 3, "auto-2026-11-20": 3, "auto-2026-11-21": 4}
    assert plan_new_tags(metadata) == expected_tags


def test_what_has_been_done_is_not_done_again() -> None:
    metadata = a_table({1: day(1)})
    again = plan_tags(tagged(metadata, plan_tags(metadata, DAILY, NOW)), DAILY, NOW)
    assert (again.make, again.drop, again.missed) == ([], {}, {})


def test_a_tag_is_kept_for_its_age_also_by_engines_that_count_from_its_snapshot() -> None:
    (tag,) = plan_tags(a_table({1: day(1)}), DAILY, NOW).make
    ends = to_milliseconds(day(1)) + 1 + tag.max_ref_age_ms
    assert ends == to_milliseconds(day(21, 0) + DAILY.max_age)


def test_only_own_tags_are_dropped_when_their_time_is_over() -> None:
    metadata = a_table({1: day(1)})
    metadata = tagged(metadata, plan_tags(metadata, DAILY, day(10)))
    theirs = {
        "auto-2026-11-01": {"type": "tag", "snapshot-id": 1},
        "auto-2026-11-02": {"type": "tag", "snapshot-id": 1, "max-ref-age-ms": 86_400_000},
        "release": {"type": "tag", "snapshot-id": 1, "max-ref-age-ms": 86_400_000},
        "main": {"type": "branch", "snapshot-id": 1},
    }
    metadata["refs"] |= theirs
    assert plan_tags(metadata, DAILY, day(16)).drop == {}
    assert plan_tags(metadata, DAILY, day(17, 1)).drop == {"auto-2026-11-10": 1}


def test_somebody_elses_tag_of_that_name_is_left_as_it_is() -> None:
    metadata = a_table({1: day(1)}, {"auto-2026-11-21": {"type": "tag", "snapshot-id": 1}})
    assert plan_new_tags(metadata) == {}


def test_a_moment_whose_snapshot_has_expired_is_told_and_the_next_ones_are_made() -> None:
    metadata = a_table({1: day(14), 2: day(18), 3: day(20)})
    metadata = tagged(metadata, plan_tags(metadata, DAILY, day(17, 1)))
    metadata["snapshots"] = [snapshot for snapshot in metadata["snapshots"] if snapshot["snapshot-id"] != 2]
    plan = plan_tags(metadata, DAILY, NOW)
    assert [tag.name for tag in plan.make] == ["auto-2026-11-18", "auto-2026-11-21"]
    assert plan.missed == dict.fromkeys(["auto-2026-11-19", "auto-2026-11-20"], "the snapshot of that time has expired")


def test_a_table_without_data_then_has_no_tag() -> None:
    plan = plan_tags(a_table({1: day(21, 5)}), DAILY, NOW)
    assert (plan.make, list(plan.missed)) == ([], ["auto-2026-11-21"])


def test_names_and_moments_are_of_the_owners_clock() -> None:
    policy = TagPolicy(
        schedule=Schedule("0 0 * * *"), name="%Y-%m-%d %H h", max_age=timedelta(days=7), zone=ZoneInfo("Asia/Tokyo")
    )
    metadata = a_table({1: day(1), 2: day(20, 16)})
    assert plan_new_tags(metadata, policy) == {"2026-11-21 00 h": 1}


def test_moments_of_one_name_are_one_tag() -> None:
    policy = TagPolicy(schedule=Schedule("0 * * * *"), name=DAILY.name, max_age=DAILY.max_age, zone=DAILY.zone)
    metadata = a_table({1: day(1)})
    metadata = tagged(metadata, plan_tags(metadata, policy, day(20, 3)))
    assert plan_new_tags(metadata, policy) == {"auto-2026-11-21": 1}


def test_without_a_schedule_nothing_is_due() -> None:
    policy = TagPolicy(schedule=None, name=DAILY.name, max_age=DAILY.max_age, zone=DAILY.zone)
    with pytest.raises(Invalid, match=r"firn\.tags\.schedule is not set"):
        plan_tags(a_table({1: day(1)}), policy, NOW)


@pytest.mark.parametrize("pattern", ["daily", "", "%Y%m%d", "x" * 300 + "%Y", "%Y\n%m", "%d"])
def test_a_pattern_that_names_no_tags_is_refused(pattern: Any) -> None:
    with pytest.raises(Invalid):
        parse_tag_name(pattern)


def test_a_pattern_is_taken_as_it_is() -> None:
    assert parse_tag_name(" eod-%Y-%j ") == "eod-%Y-%j"
    assert isinstance(plan_tags(a_table({1: day(1)}), DAILY, NOW).make[0], NewTag)
