"""A table, and requirements that hold and fail for it."""

from __future__ import annotations

from catalog.iceberg.json import Json
from tests.catalog.iceberg.build import OTHER_UUID, UUID, a_table, applied, move, with_history

TABLE = applied(with_history(a_table(), 3), move(1, "v1", "tag"))
HOLD: list[Json] = [
    {"type": "assert-table-uuid", "uuid": UUID},
    {"type": "assert-table-uuid", "uuid": UUID.upper()},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 3},
    {"type": "assert-ref-snapshot-id", "ref": "v1", "snapshot-id": 1},
    {"type": "assert-ref-snapshot-id", "ref": "ghost", "snapshot-id": None},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 3},
    {"type": "assert-current-schema-id", "current-schema-id": 0},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
    {"type": "assert-default-spec-id", "default-spec-id": 0},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
]
FAIL: list[tuple[Json, str]] = [
    ({"type": "assert-create"}, "table already exists"),
    ({"type": "assert-table-uuid", "uuid": OTHER_UUID}, f"UUID does not match: expected {UUID} != {OTHER_UUID}"),
    (
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2},
        "branch main has changed: expected id 2 != 3",
    ),
    ({"type": "assert-ref-snapshot-id", "ref": "v1", "snapshot-id": 2}, "tag v1 has changed: expected id 2 != 1"),
    (
        {"type": "assert-ref-snapshot-id", "ref": "v1", "snapshot-id": None},
        "tag v1 was created concurrently",
    ),
    (
        {"type": "assert-ref-snapshot-id", "ref": "ghost", "snapshot-id": 2},
        "branch or tag ghost is missing, expected 2",
    ),
    (
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2},
        "last assigned field id changed: expected id 2 != 3",
    ),
    ({"type": "assert-current-schema-id", "current-schema-id": 1}, "current schema changed: expected id 1 != 0"),
    (
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1000},
        "last assigned partition id changed: expected id 1000 != 999",
    ),
    (
        {"type": "assert-default-spec-id", "default-spec-id": 1},
        "default partition spec changed: expected id 1 != 0",
    ),
    (
        {"type": "assert-default-sort-order-id", "default-sort-order-id": 1},
        "default sort order changed: expected id 1 != 0",
    ),
]
