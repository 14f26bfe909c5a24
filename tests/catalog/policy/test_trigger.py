"""Triggers: what they mean, what they say, and where bad ones stop making sense."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import Invalid
from catalog.policy.policy import check_settings
from catalog.policy.trigger import AllOf, AnyOf, AtLeast, PendingChanges, Trigger, TriggerFact, parse_trigger
from tests.factories import NOW

ISSUE = "rows >= 500000 or bytes >= 64 MiB or (commits >= 20 and age >= 5 min)"
HOUR = timedelta(hours=1)


def waiting(**changes: Any) -> PendingChanges:
    """One row, that came a minute ago; merged an hour ago."""
    values: dict[str, Any] = {"rows": 1, "bytes": 10, "commits": 1, "since": NOW - HOUR / 60, "merged_at": NOW - HOUR}
    return PendingChanges(**{**values, "now": NOW, **changes})


def test_a_trigger_reads_as_it_is_written() -> None:
    both = AllOf((AtLeast(TriggerFact.COMMITS, 20), AtLeast(TriggerFact.AGE, 300)))
    assert parse_trigger(ISSUE) == AnyOf(
        (AtLeast(TriggerFact.ROWS, 500_000), AtLeast(TriggerFact.BYTES, 64 * 2**20), both)
    )
    assert parse_trigger(" ((ROWS>=5_000)) ") == AtLeast(TriggerFact.ROWS, 5000)


def test_and_binds_closer_than_or() -> None:
    first, two, three = (AtLeast(TriggerFact.ROWS, limit) for limit in (1, 2, 3))
    assert parse_trigger("rows >= 1 or rows >= 2 and rows >= 3") == AnyOf((first, AllOf((two, three))))
    assert parse_trigger("(rows >= 1 or rows >= 2) and rows >= 3") == AllOf((AnyOf((first, two)), three))


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", 1, "expected one of rows, bytes, commits, age, elapsed, found the end"),
        ("cows >= 5", 1, "found 'cows'"),
        ("rows > 5", 6, "found '>'"),
        ("rows >= ", 9, "expected an amount, found the end"),
        ("rows >= 5 rows >= 6", 9, "'5 rows' is not a whole number"),
        ("rows >= 5 >= 6", 11, "expected and, or, or the end, found '>='"),
        ("rows >= 5 or", 13, "found the end"),
        ("(rows >= 5", 11, "expected and, or, or )"),
        ("rows >= 5)", 10, "found ')'"),
        ("age >= 5", 8, "is not a duration"),
        ("commits >= 5 min", 12, "is not a whole number"),
        ("bytes >= 3 apples and rows >= 1", 10, "is not a size"),
        ("rows >= 5 & age >= 1 s", 11, "found '&'"),
        ("(" * 30 + "rows >= 5" + ")" * 30, 22, "no more than 20 brackets"),
    ],
)
def test_a_bad_trigger_is_refused_and_told_where(text: str, place: int, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_trigger(text)
    assert refused.value.message.startswith(f"at character {place} of ")
    assert words in refused.value.message


def test_a_trigger_without_end_is_refused() -> None:
    with pytest.raises(Invalid, match="1000 characters at most"):
        parse_trigger(" or ".join(["rows >= 5"] * 200))


def test_a_bad_trigger_is_refused_when_it_is_set() -> None:
    check_settings({"firn.merge.trigger": ISSUE})
    with pytest.raises(Invalid, match=r"firn\.merge\.trigger: at character 6 of 'rows > 5'"):
        check_settings({"firn.merge.trigger": "rows > 5"})


def test_what_holds_is_said_with_its_limit() -> None:
    trigger = parse_trigger("rows >= 5000 or (commits >= 2 and age >= 1 min)")
    assert not trigger.holds(waiting())
    assert trigger.reason(waiting()) == "1 row pending (limit 5,000)"
    assert trigger.reason(waiting(rows=6000)) == "6,000 rows pending (limit 5,000)"
    both = "2 commits pending (limit 2) and oldest change pending for 60 s (limit 60 s)"
    assert trigger.reason(waiting(commits=2)) == both


def test_of_what_has_to_hold_together_the_rest_is_said() -> None:
    trigger = parse_trigger("bytes >= 64 MiB and elapsed >= 3 h and rows >= 1")
    assert trigger.reason(waiting()) == "10 bytes pending (limit 64 MiB) and last merged 60 min ago (limit 3 h)"


def test_time_makes_true_what_waits_for_time_alone() -> None:
    assert parse_trigger("age >= 5 min").next_at(waiting()) == NOW + 4 * HOUR / 60
    assert parse_trigger("elapsed >= 3 h").next_at(waiting()) == NOW + 2 * HOUR
    assert parse_trigger("age >= 5 min and elapsed >= 3 h and rows >= 1").next_at(waiting()) == NOW + 2 * HOUR
    assert parse_trigger("age >= 5 min or elapsed >= 3 h or rows >= 9").next_at(waiting()) == NOW + 4 * HOUR / 60
    assert parse_trigger("rows >= 9").next_at(waiting()) is None
    assert parse_trigger("rows >= 9 and age >= 5 min").next_at(waiting()) is None


def test_how_near_it_is_goes_by_amounts() -> None:
    assert parse_trigger("rows >= 4 or commits >= 2").reached(waiting()) == 0.5
    assert parse_trigger("rows >= 4 and commits >= 2 and age >= 9 d").reached(waiting()) == 0.25
    assert parse_trigger("age >= 9 d").reached(waiting()) is None


comparisons: st.SearchStrategy[Trigger] = st.builds(AtLeast, st.sampled_from(TriggerFact), st.integers(1, 10_000))
triggers = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds(AllOf, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=8,
)


def written(trigger: Trigger) -> str:
    """The trigger with a bracket around every part."""
    if isinstance(trigger, AtLeast):
        unit = " s" if trigger.fact in (TriggerFact.AGE, TriggerFact.ELAPSED) else ""
        return f"{trigger.fact} >= {int(trigger.limit)}{unit}"
    word = " and " if isinstance(trigger, AllOf) else " or "
    return word.join(f"({written(part)})" for part in trigger.parts)


@given(triggers)
def test_what_is_written_out_reads_the_same(trigger: Trigger) -> None:
    assert parse_trigger(written(trigger)) == trigger


@given(triggers, st.integers(1, 20_000), st.integers(1, 20_000))
def test_a_trigger_begins_to_hold_when_it_was_told_and_not_a_second_before(
    trigger: Trigger, rows: int, age: int
) -> None:
    then = waiting(rows=rows, commits=rows, bytes=rows, since=NOW - timedelta(seconds=age))
    holds_at = trigger.next_at(then)
    assert trigger.holds(then) == (holds_at == NOW)
    if holds_at is None:
        assert not trigger.holds(at(then, NOW + 100_000 * HOUR))
    elif holds_at > NOW:
        assert trigger.holds(at(then, holds_at))
        assert not trigger.holds(at(then, holds_at - timedelta(seconds=1)))


def at(then: PendingChanges, moment: Any) -> PendingChanges:
    return PendingChanges(**{name: getattr(then, name) for name in PendingChanges.__slots__} | {"now": moment})
