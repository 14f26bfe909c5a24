"""What every commit does around its updates: dates, the metadata log, old files completed, nonsense refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.errors import Invalid, RequirementFailed
from catalog.iceberg.json import Json
from catalog.iceberg.table import apply_updates, check_requirements
from catalog.iceberg.view import apply_view_updates
from tests.catalog.iceberg.build import CREATED_MS, NOW_MS, ORDERS, a_table, applied, part, spec, with_history
from tests.catalog.iceberg.random_requests import request
from tests.catalog.iceberg.random_views import a_random_view, view_request
from tests.catalog.iceberg.requirement_cases import HOLD, TABLE

NONSENSE: list[Any] = [None, "", "x", -1, 2**70, 1.5, True, [], {}, [None], {"a": None}, ["x"], [[]], [{}]]


def set_properties(**updates: str) -> Json:
    return {"action": "set-properties", "updates": updates}


def test_an_unknown_action_is_named() -> None:
    with pytest.raises(Invalid, match="cannot apply update 'add-magic' to a table"):
        applied(a_table(), {"action": "add-magic"})


def test_an_update_of_views_is_not_one_of_tables() -> None:
    with pytest.raises(Invalid, match="cannot apply update 'add-view-version' to a table"):
        applied(a_table(), {"action": "add-view-version"})


def test_an_update_without_an_action_is_invalid() -> None:
    with pytest.raises(Invalid, match="'action' is missing"):
        applied(a_table(), {"schema-id": 1})


def test_no_updates_change_nothing() -> None:
    table = a_table()
    assert apply_updates(table, [], now_ms=NOW_MS, previous_location="file:/1.json") is table


def test_a_change_is_dated_and_remembers_the_file_before() -> None:
    table = applied(a_table(), set_properties(a="1"), previous="file:/1.json")
    assert table["last-updated-ms"] == NOW_MS
    assert table["metadata-log"] == [{"timestamp-ms": CREATED_MS, "metadata-file": "file:/1.json"}]


def logged(table: Json, changes: int) -> list[str]:
    for number in range(changes):
        table = applied(table, set_properties(n=str(number)), previous=f"file:/{number}.json")
    return [entry["metadata-file"] for entry in table["metadata-log"]]


def test_the_metadata_log_keeps_100_files() -> None:
    assert logged(a_table(), 103) == [f"file:/{number}.json" for number in range(3, 103)]


def test_the_metadata_log_is_as_long_as_the_property_says() -> None:
    assert logged(a_table(properties={"write.metadata.previous-versions-max": "2"}), 5) == [
        "file:/3.json",
        "file:/4.json",
    ]


def test_the_metadata_log_keeps_at_least_one_file() -> None:
    assert logged(a_table(properties={"write.metadata.previous-versions-max": "0"}), 3) == ["file:/2.json"]


def test_a_log_length_that_is_no_number_is_invalid() -> None:
    with pytest.raises(Invalid, match=r"write\.metadata\.previous-versions-max must be an integer, not 'many'"):
        applied(a_table(), set_properties(**{"write.metadata.previous-versions-max": "many"}), previous="file:/1.json")


def test_a_clock_that_is_behind_does_not_make_metadata_that_readers_refuse() -> None:
    table = applied(a_table(), set_properties(a="1"), now_ms=CREATED_MS - 3_600_000)
    assert table["last-updated-ms"] == CREATED_MS - 60_000


def test_the_oldest_v1_metadata_is_completed() -> None:
    old = {
        "format-version": 1,
        "location": "file:/t",
        "last-updated-ms": CREATED_MS,
        "last-column-id": 3,
        "schema": {key: value for key, value in ORDERS.items() if key != "schema-id"},
        "partition-spec": [part(2, "day", "d")],
        "current-snapshot-id": 7,
        "snapshots": [{"snapshot-id": 7, "timestamp-ms": CREATED_MS, "manifest-list": "file:/m"}],
        "x-ours": True,
    }
    table = applied(old, set_properties(a="1"))
    assert table["schemas"] == [ORDERS]
    assert table["partition-specs"] == [spec(part(2, "day", "d", 1000))]
    assert table["last-partition-id"] == 1000
    assert table["sort-orders"] == [{"order-id": 0, "fields": []}]
    assert table["refs"] == {"main": {"type": "branch", "snapshot-id": 7}}
    assert table["x-ours"] is True


def spoiled(rng: Random, value: Any) -> Any:
    """The value with one part of it, however deep, replaced by nonsense or left out."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        if rng.random() < 0.2:
            return {name: part for name, part in value.items() if name != key}
        return {**value, key: spoiled(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        return [*value[:at], spoiled(rng, value[at]), *value[at + 1 :]]
    return rng.choice(NONSENSE)


def refused_at_most(action: Callable[[], object]) -> None:
    """Run it; any error but a refusal in the domain's words fails the test."""
    with suppress(Invalid, RequirementFailed):
        action()


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 3]))
@settings(max_examples=300, deadline=None)
def test_nonsense_in_a_table_commit_is_refused_in_words(seed: int, version: int) -> None:
    rng = Random(seed)
    table = with_history(a_table(version), 2)
    updates = request(rng, table)
    at = rng.randrange(len(updates)) if updates else 0
    updates[at : at + 1] = [spoiled(rng, updates[at])] if updates else []
    refused_at_most(lambda: apply_updates(table, updates, now_ms=NOW_MS, previous_location="file:/1.json"))


@given(st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_nonsense_in_a_view_commit_is_refused_in_words(seed: int) -> None:
    rng = Random(seed)
    view = a_random_view(rng)
    updates = view_request(rng, view)
    at = rng.randrange(len(updates))
    updates[at] = spoiled(rng, updates[at])
    refused_at_most(lambda: apply_view_updates(view, updates, now_ms=NOW_MS))


@given(st.integers(0, 2**32), st.sampled_from(HOLD))
@settings(max_examples=300, deadline=None)
def test_nonsense_in_a_requirement_is_refused_in_words(seed: int, requirement: Json) -> None:
    refused_at_most(lambda: check_requirements(TABLE, [spoiled(Random(seed), requirement)]))


@given(st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_nonsense_in_a_create_request_is_refused_in_words(seed: int) -> None:
    rng = Random(seed)
    columns, partition_spec = spoiled(rng, ORDERS), spoiled(rng, spec(part(2, "day", "d")))
    refused_at_most(lambda: a_table(columns=columns))
    refused_at_most(lambda: a_table(partition_spec=partition_spec))
