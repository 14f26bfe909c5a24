"""Each requirement: when it holds, and what is said when it does not."""

from __future__ import annotations

import pytest

from catalog.errors import Invalid, RequirementFailed
from catalog.iceberg.json import Json
from catalog.iceberg.table import check_requirements
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


@pytest.mark.parametrize("requirement", HOLD, ids=str)
def test_a_requirement_that_holds_passes(requirement: Json) -> None:
    check_requirements(TABLE, [requirement])


@pytest.mark.parametrize(("requirement", "said"), FAIL)
def test_a_requirement_that_fails_is_named(requirement: Json, said: str) -> None:
    with pytest.raises(RequirementFailed) as failure:
        check_requirements(TABLE, [*HOLD, requirement])
    assert failure.value.message == f"Requirement failed: {said}"


@pytest.mark.parametrize(
    "requirement",
    [
        {"type": "assert-create"},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 0},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 0},
    ],
    ids=str,
)
def test_some_requirements_hold_for_a_table_that_does_not_exist(requirement: Json) -> None:
    check_requirements(None, [requirement])


@pytest.mark.parametrize(
    "requirement",
    [
        {"type": "assert-table-uuid", "uuid": UUID},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
        {"type": "assert-current-schema-id", "current-schema-id": 0},
        {"type": "assert-default-spec-id", "default-spec-id": 0},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
    ],
    ids=str,
)
def test_others_fail_for_a_table_that_does_not_exist(requirement: Json) -> None:
    with pytest.raises(RequirementFailed):
        check_requirements(None, [requirement])


def test_metadata_older_than_refs_has_a_main_branch() -> None:
    old = {key: value for key, value in with_history(a_table(1), 2).items() if key != "refs"}
    check_requirements(old, [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2}])


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        ({"type": "assert-luck"}, "cannot check requirement 'assert-luck' of a table"),
        ({"type": "assert-view-uuid", "uuid": UUID}, "cannot check requirement 'assert-view-uuid' of a table"),
        ({}, "'type' is missing"),
        ({"type": "assert-table-uuid"}, "'uuid' is missing"),
        (
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": "3"},
            "'snapshot-id' must be an integer",
        ),
        ({"type": "assert-default-spec-id"}, "'default-spec-id' is missing"),
    ],
)
def test_a_requirement_that_cannot_be_understood_is_invalid(requirement: Json, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        check_requirements(TABLE, [requirement])
