"""Which columns are counted."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.errors import Invalid
from catalog.files.column_statistics import SKETCH
from catalog.iceberg.json import Json
from catalog.retention.statistics import build_statistics_task, choose_statistics_columns, list_counted_columns


def a_table(**more: Any) -> Json:
    fields = [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "at", "type": "date", "required": False},
        {"id": 3, "name": "tags", "type": {"type": "list"}, "required": False},
        {"id": 4, "name": "body", "type": "variant", "required": False},
        {"id": 5, "name": "price", "type": "decimal(10, 2)", "required": False},
    ]
    schemas = [{"schema-id": 0, "fields": fields}]
    return {"schemas": schemas, "current-schema-id": 0, "current-snapshot-id": 7, **more}


def counted(snapshot_id: int, *field_ids: int, kind: str = SKETCH) -> Json:
    blobs = [{"type": kind, "fields": [field_id]} for field_id in field_ids]
    return {"snapshot-id": snapshot_id, "statistics-path": "s.puffin", "blob-metadata": blobs}


def test_by_hand_all_columns_of_single_values_are_counted_and_by_schedule_none_without_a_wish() -> None:
    assert choose_statistics_columns(a_table(), None, all_without=True) == ["id", "at", "price"]
    with pytest.raises(Invalid, match="not set"):
        choose_statistics_columns(a_table(), None, all_without=False)


def test_columns_that_are_asked_for_are_counted_in_the_tables_order() -> None:
    assert choose_statistics_columns(a_table(), ("price", "id"), all_without=False) == ["id", "price"]
    for wrong, reason in (("ID", "no column"), ("tags", "no single values"), ("body", "no single values")):
        with pytest.raises(Invalid, match=reason):
            choose_statistics_columns(a_table(), (wrong,), all_without=True)


def test_what_the_heads_statistics_hold_is_not_counted_again() -> None:
    done = a_table(statistics=[counted(6, 1, 2, 5), counted(7, 1, 2), counted(7, 5, kind="other")])
    assert list_counted_columns(done) == ["id", "at"]
    assert build_statistics_task(["t"], done, ["id", "at"]).columns == []
    assert build_statistics_task(["t"], done, ["id", "price"]).columns == ["id", "price"]
    assert build_statistics_task(["t"], a_table(), ["id"]).columns == ["id"]


def test_columns_are_called_what_they_were_called_when_the_head_was_written() -> None:
    """`at` was called `price` then, and `price` is newer than the head."""
    then = {
        "schema-id": 0,
        "fields": [{"id": 1, "name": "id", "type": "int"}, {"id": 2, "name": "price", "type": "date"}],
    }
    now = {"schema-id": 1, "fields": a_table()["schemas"][0]["fields"]}
    head = {"snapshot-id": 7, "schema-id": 0}
    table = a_table(schemas=[then, now], snapshots=[head], **{"current-schema-id": 1})
    assert build_statistics_task(["t"], table, ["id", "at", "price"]).columns == ["id", "price"]
    assert build_statistics_task(["t"], table, ["price"]).columns == []
    assert build_statistics_task(["t"], {**table, "statistics": [counted(7, 1)]}, ["id", "price"]).columns == []
