"""Metadata for readers that want only the refs' snapshots, or one snapshot for ever."""

from __future__ import annotations

import pytest

from catalog.errors import NotFound
from catalog.iceberg.json import Json
from catalog.iceberg.table import apply_updates, current_schema, keep_refs_only, pin_snapshot
from tests.catalog.iceberg.build import (
    CREATED_MS,
    LOCATION,
    ORDERS,
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

RENAMED = schema(ORDERS["fields"][0], {**ORDERS["fields"][1], "name": "on"}, ORDERS["fields"][2])


def renamed(table: Json) -> Json:
    return applied(
        table, {"action": "add-schema", "schema": RENAMED}, {"action": "set-current-schema", "schema-id": -1}
    )


def test_only_snapshots_of_refs_are_left() -> None:
    table = applied(with_history(a_table(), 5), move(2, "v1", "tag"))
    cut = keep_refs_only(table)
    assert [known["snapshot-id"] for known in cut["snapshots"]] == [2, 5]
    assert {**cut, "snapshots": table["snapshots"]} == table


def test_without_refs_the_current_snapshot_is_left() -> None:
    old = {key: value for key, value in with_history(a_table(1), 2).items() if key != "refs"}
    assert [known["snapshot-id"] for known in keep_refs_only(old)["snapshots"]] == [2]


def test_a_pinned_table_has_one_snapshot_and_no_other_history() -> None:
    table = applied(with_history(a_table(3), 4), move(4, "v1", "tag"))
    pin = pin_snapshot(table, 2, schema_id=0)
    assert pin["snapshots"] == [table["snapshots"][1]]
    assert pin["current-snapshot-id"] == 2
    assert pin["refs"] == {"main": {"type": "branch", "snapshot-id": 2}}
    assert pin["snapshot-log"] == [{"timestamp-ms": CREATED_MS + 2000, "snapshot-id": 2}]
    assert pin["metadata-log"] == []


def test_a_pinned_table_reads_old_data_under_the_new_schema() -> None:
    pin = pin_snapshot(renamed(with_history(a_table(), 2)), 1, schema_id=1)
    assert current_schema(pin)["fields"][1]["name"] == "on"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_later_commits_do_not_change_when_a_pin_says_it_was_made(version: int) -> None:
    table = with_history(a_table(version), 2)
    later = apply_updates(
        table,
        [{"action": "set-snapshot-ref", "ref-name": "b", "type": "branch", "snapshot-id": 1}],
        now_ms=CREATED_MS + 900_000,
        previous_location=f"{LOCATION}/1.json",
    )
    assert pin_snapshot(later, 1, schema_id=0) == pin_snapshot(table, 1, schema_id=0)


def test_a_pin_of_nothing_is_an_empty_table() -> None:
    pin = pin_snapshot(with_history(a_table(3), 2), None, schema_id=0)
    assert (pin["snapshots"], pin["refs"], pin["snapshot-log"], pin["current-snapshot-id"]) == ([], {}, [], None)


def test_a_pin_keeps_the_statistics_of_its_own_snapshot() -> None:
    files = [
        {
            "action": "set-partition-statistics",
            "partition-statistics": {
                "snapshot-id": number,
                "statistics-path": f"{LOCATION}/p{number}",
                "file-size-in-bytes": 1,
            },
        }
        for number in (1, 2)
    ]
    pin = pin_snapshot(applied(with_history(a_table(), 2), *files), 2, schema_id=0)
    assert [file["snapshot-id"] for file in pin["partition-statistics"]] == [2]


@pytest.mark.parametrize(("snapshot_id", "schema_id"), [(9, 0), (1, 9)])
def test_a_pin_of_what_is_gone_is_not_found(snapshot_id: int, schema_id: int) -> None:
    with pytest.raises(NotFound):
        pin_snapshot(with_history(a_table(), 2), snapshot_id, schema_id=schema_id)


def test_a_pin_under_an_older_schema_takes_a_spec_and_an_order_that_fit_it() -> None:
    table = applied(
        with_history(a_table(sort_order=order(sort(1)), partition_spec=spec(part(2, "day", "d"))), 1),
        {"action": "add-schema", "schema": schema(*ORDERS["fields"], column(4, "shop"))},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": spec(part(4, "identity", "shop"))},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": order(sort(4))},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    )
    under_new, under_old = pin_snapshot(table, 1, schema_id=1), pin_snapshot(table, 1, schema_id=0)
    assert (under_new["default-spec-id"], under_new["default-sort-order-id"]) == (1, 2)
    assert (under_old["default-spec-id"], under_old["default-sort-order-id"]) == (0, 1)
