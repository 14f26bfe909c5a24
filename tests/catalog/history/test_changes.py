"""What a commit's description says, and that it can be made of whatever could be committed."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.errors import Invalid
from catalog.history.change import LONGEST_TEXT, MAX_CHANGES, Change, ChangeKind, keep_changes, list_topics, net_changes
from catalog.history.columns import compare_columns
from catalog.history.headline import describe_change, diff_lines
from catalog.history.tables import compare_tables, describe_created_table
from catalog.history.views import compare_views, describe_created_view
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.iceberg.view import apply_view_updates, current_version
from firn.protocol.history import Topic
from tests.catalog.iceberg.build import (
    NOW_MS,
    a_table,
    applied,
    column,
    move,
    order,
    part,
    schema,
    sort,
    spec,
    with_history,
)
from tests.catalog.iceberg.random_histories import histories, history
from tests.catalog.iceberg.random_views import a_random_view, view_request

STRUCT: Json = {
    "type": "struct",
    "fields": [column(11, "street", "string"), column(12, "zip", "int"), column(13, "city", "string")],
}


def describe_changes(before: Json, after: Json) -> list[str]:
    return [describe_change(change) for change in compare_tables(before, after)]


def columns_said(before: Json, after: Json) -> list[str]:
    return [describe_change(change) for change in compare_columns(before, after)]


@given(histories)
@settings(max_examples=80, deadline=None)
def test_whatever_could_be_committed_is_described_and_every_difference_named(drawn: tuple[Random, int]) -> None:
    states = history(*drawn)
    describe_created_table(states[0])
    for before, after in pairwise(states):
        changes = compare_tables(before, after)
        assert [Change.from_json(change.to_json()) for change in changes] == changes
        assert all(describe_change(change) for change in changes)
        list_topics(changes)
        assert {change.name for change in changes if change.kind is ChangeKind.PROPERTY} == {
            key
            for key in before["properties"].keys() | after["properties"].keys()
            if before["properties"].get(key) != after["properties"].get(key)
        }
        assert {change.name for change in changes if change.kind in (ChangeKind.BRANCH, ChangeKind.TAG)} == {
            name for name in before["refs"].keys() | after["refs"].keys() if _at(before, name) != _at(after, name)
        }
        old, new = ({snapshot["snapshot-id"] for snapshot in state["snapshots"]} for state in (before, after))
        assert {int(change.name) for change in changes if change.kind is ChangeKind.SNAPSHOT} == new - old
        assert sum(int(change.before or 0) for change in changes if change.kind is ChangeKind.EXPIRED) == len(old - new)
        touched = {change.name for change in changes if change.kind.startswith("column")}
        assert _different_columns(before, after) <= touched


def _at(state: Json, name: str) -> int | None:
    ref = state["refs"].get(name)
    return None if ref is None else ref["snapshot-id"]


def _different_columns(before: Json, after: Json) -> set[str]:
    old, new = ({field["id"]: field for field in current_schema(state)["fields"]} for state in (before, after))
    changed = {new[field_id]["name"] for field_id in old.keys() & new.keys() if old[field_id] != new[field_id]}
    return (
        changed
        | {old[field_id]["name"] for field_id in old.keys() - new.keys()}
        | {new[field_id]["name"] for field_id in new.keys() - old.keys()}
    )


@given(st.integers(0, 2**32).map(Random))
@settings(max_examples=60, deadline=None)
def test_whatever_could_be_done_to_a_view_is_described(rng: Random) -> None:
    view = a_random_view(rng)
    assert describe_created_view(view)
    for step in range(20):
        try:
            after = apply_view_updates(view, view_request(rng, view), now_ms=NOW_MS + step)
        except Invalid:
            continue
        changes = compare_views(view, after)
        assert all(describe_change(change) for change in changes)
        moved = view["current-version-id"] != after["current-version-id"]
        assert (ChangeKind.VIEW_VERSION in {change.kind for change in changes}) == moved
        old, new = current_version(view)["representations"], current_version(after)["representations"]
        sql = {change.name for change in changes if change.kind is ChangeKind.SQL}
        assert bool(sql) == (
            {(representation["dialect"].lower(), representation["sql"]) for representation in old}
            != {(representation["dialect"].lower(), representation["sql"]) for representation in new}
        )
        view = after


def test_columns_are_told_apart_by_their_ids() -> None:
    before = schema(column(1, "id"), column(2, "a", "int"), column(3, "b", "string"), column(4, "c", "string"))
    after = schema(
        column(1, "id"), column(2, "a", "long"), column(3, "bee", "string"), column(5, "d", "date", required=True)
    )
    assert columns_said(before, after) == [
        "dropped column c (string)",
        "added column d (date, required)",
        "changed the type of column a from int to long",
        "renamed column b to bee",
    ]


def test_a_column_that_is_dropped_and_added_again_is_another_one() -> None:
    assert columns_said(schema(column(1, "a", "int")), schema(column(2, "a", "int"))) == [
        "dropped column a (int)",
        "added column a (int)",
    ]


def test_one_moved_column_is_one_change_wherever_it_went() -> None:
    first, two, three, four = (column(number, name) for number, name in enumerate("abcd", 1))
    assert columns_said(schema(first, two, three, four), schema(four, first, two, three)) == [
        "moved column d to the front"
    ]
    assert columns_said(schema(first, two, three, four), schema(two, three, first, four)) == ["moved column a after c"]


def test_nested_fields_have_changes_of_their_own_and_a_new_struct_is_one() -> None:
    before = schema(
        column(1, "address", STRUCT), column(2, "tags", {"type": "list", "element-id": 20, "element": "int"})
    )
    inside = {**STRUCT, "fields": [STRUCT["fields"][0], {**STRUCT["fields"][1], "type": "long"}]}
    after = schema(
        column(1, "address", inside),
        column(2, "tags", {"type": "list", "element-id": 20, "element": "long"}),
        column(3, "home", {**STRUCT, "fields": [column(31, "street", "string")]}),
    )
    assert columns_said(before, after) == [
        "dropped column address.city (string)",
        "added column home (struct<street: string>)",
        "changed the type of column address.zip from int to long",
        "changed the type of column tags.element from int to long",
    ]


def test_nulls_comments_defaults_and_identifiers_are_told() -> None:
    before = schema(column(1, "id", required=True), column(2, "n", "int", doc="old"), identifier_field_ids=[1])
    after = schema(column(1, "id"), column(2, "n", "int", doc="new", write_default=7), identifier_field_ids=[])
    assert columns_said(before, after) == [
        "made column id optional",
        "set the comment of column n to new",
        "set the default of column n to 7",
        "rows are identified by no column (was id)",
    ]


def test_properties_partitioning_and_order_are_told_with_what_they_were() -> None:
    before = a_table(properties={"keep": "x", "drop": "1", "change": "a"})
    after = applied(
        before,
        {"action": "set-properties", "updates": {"change": "b", "new": "2"}},
        {"action": "remove-properties", "removals": ["drop"]},
        {"action": "add-spec", "spec": spec(part(2, "day", "day_day", 1000), part(1, "bucket[4]", "id_bucket", 1001))},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": order(sort(1))},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "upgrade-format-version", "format-version": 3},
        {"action": "set-location", "location": "file:/elsewhere"},
    )
    assert describe_changes(before, after) == [
        "partitioned by days(day), bucket(4, id)",
        "sorted by id asc nulls first",
        "format version 3 (was 2)",
        "new files go to file:/elsewhere (was file:/warehouse/db/orders)",
        "set property change to b (was a)",
        "removed property drop (was 1)",
        "set property new to 2",
    ]


def test_refs_tell_where_they_went_and_how_long_they_stay() -> None:
    before = with_history(a_table(), 2)
    first, second = (snapshot["snapshot-id"] for snapshot in before["snapshots"])
    tagged = applied(before, move(first, "v1", "tag", max_ref_age_ms=7 * 86_400_000), move(first, "b"))
    assert describe_changes(before, tagged) == [
        f"created branch b at snapshot {first}",
        f"created tag v1 at snapshot {first}",
        "v1: kept 7 d",
    ]
    moved = applied(tagged, move(second, "b"), {"action": "remove-snapshot-ref", "ref-name": "v1"})
    assert describe_changes(tagged, moved) == [
        f"moved branch b from snapshot {first} to {second}",
        f"removed tag v1, which was at snapshot {first}",
    ]


def test_the_topics_of_an_append_do_not_include_refs_and_those_of_a_tag_do() -> None:
    append = [Change(ChangeKind.SNAPSHOT, "2", "1", "append"), Change(ChangeKind.BRANCH, "main", "1", "2")]
    assert list_topics(append) == {Topic.DATA}
    assert list_topics([*append, Change(ChangeKind.TAG, "v1", None, "2")]) == {Topic.DATA, Topic.REFS}


def test_every_kind_of_change_has_words_and_all_but_the_rest_a_topic() -> None:
    for kind in ChangeKind:
        change = Change(kind, "name", "1", "2")
        assert describe_change(change)
        assert bool(list_topics([change])) == (kind is not ChangeKind.MORE)


def test_a_commit_that_changes_everything_is_kept_short_and_says_so() -> None:
    many = [Change(ChangeKind.PROPERTY, f"p{number}", None, "x" * 10_000) for number in range(MAX_CHANGES + 50)]
    stored = keep_changes(many)
    assert len(stored) == MAX_CHANGES + 1
    assert describe_change(stored[-1]) == "50 more changes, not kept"
    assert len(stored[0].after or "") <= LONGEST_TEXT + 2


def test_half_a_surrogate_pair_reaches_no_database() -> None:
    (stored,) = keep_changes([Change(ChangeKind.PROPERTY, "p", None, "\ud83d")])
    assert stored.after == "?"


def test_what_many_changes_come_to() -> None:
    path = [
        Change(ChangeKind.PROPERTY, "a", None, "1"),
        Change(ChangeKind.PROPERTY, "b", "x", "y"),
        Change(ChangeKind.PROPERTY, "a", "1", "2"),
        Change(ChangeKind.PROPERTY, "b", "y", "x"),
    ]
    assert net_changes(path) == [Change(ChangeKind.PROPERTY, "a", None, "2")]


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("select 1", "select 1", [(" ", "select 1")]),
        (None, "select 1", [("+", "select 1")]),
        ("select a\nfrom t", "select b\nfrom t", [("-", "select a"), ("+", "select b"), (" ", "from t")]),
    ],
)
def test_sql_is_compared_line_by_line(before: str | None, after: str, lines: list[tuple[str, str]]) -> None:
    assert diff_lines(before, after) == lines
