"""Each requirement: when it holds, and what is said when it does not."""

from __future__ import annotations

import pytest

from catalog.errors import Invalid, RequirementFailed
from catalog.iceberg.json import Json
from catalog.iceberg.table import check_requirements
from tests.catalog.iceberg.build import UUID, a_table, with_history
from tests.catalog.iceberg.requirement_cases import FAIL, HOLD, TABLE


@pytest.mark.parametrize("requirement", HOLD, ids=str)
def test_a_requirement_that_holds_passes(requirement: Json) -> None:
    check_requirements(TABLE, [requirement])


@pytest.mark.parametrize(("requirement", "message"), FAIL)
def test_a_requirement_that_fails_is_named(requirement: Json, message: str) -> None:
    with pytest.raises(RequirementFailed) as failure:
        check_requirements(TABLE, [*HOLD, requirement])
    assert failure.value.message == f"Requirement failed: {message}"


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
    ("requirement", "message"),
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
def test_a_requirement_that_cannot_be_understood_is_invalid(requirement: Json, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        check_requirements(TABLE, [requirement])
