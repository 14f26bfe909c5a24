"""The requirements of a commit on its table or view, checked with the messages that clients know."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from catalog.errors import Invalid, OtherTable, RequirementFailed
from catalog.iceberg.json import Json, integer, integer_or_none, read_object, text
from catalog.iceberg.reading import ref_of


def check_requirements(metadata: Json | None, requirements: Sequence[Json]) -> None:
    """RequirementFailed, naming the first requirement that does not hold; None is a table that does not exist."""
    for requirement in requirements:
        kind = text(read_object(requirement, "requirement"), "type", "requirement")
        if kind not in _TABLE_CHECKS:
            raise Invalid(f"cannot check requirement {kind!r} of a table", hint=f"known: {', '.join(_TABLE_CHECKS)}")
        _TABLE_CHECKS[kind](metadata, requirement)


def check_view_requirements(metadata: Json | None, requirements: Sequence[Json]) -> None:
    """Check the requirements of a view; the only one is its UUID."""
    for requirement in requirements:
        kind = text(read_object(requirement, "requirement"), "type", "requirement")
        if kind != "assert-view-uuid":
            raise Invalid(f"cannot check requirement {kind!r} of a view", hint="known: assert-view-uuid")
        expected = text(requirement, "uuid", kind)
        if metadata is None:
            raise RequirementFailed("Requirement failed: view does not exist")
        if expected.lower() != metadata["view-uuid"].lower():
            raise RequirementFailed(
                f"Requirement failed: view UUID does not match: expected {metadata['view-uuid']} != {expected}"
            )


def _assert_create(metadata: Json | None, _: Json) -> None:
    if metadata is not None:
        raise RequirementFailed("Requirement failed: table already exists")


def _assert_uuid(metadata: Json | None, requirement: Json) -> None:
    expected, actual = text(requirement, "uuid", "assert-table-uuid"), _existing(metadata).get("table-uuid")
    if actual is None or expected.lower() != actual.lower():
        raise OtherTable(f"Requirement failed: UUID does not match: expected {actual} != {expected}")


def _assert_ref(metadata: Json | None, requirement: Json) -> None:
    name = text(requirement, "ref", "assert-ref-snapshot-id")
    expected = integer_or_none(requirement, "snapshot-id", "assert-ref-snapshot-id")
    ref = ref_of(metadata, name) if metadata is not None else None
    if ref is None:
        if expected is not None:
            raise RequirementFailed(f"Requirement failed: branch or tag {name} is missing, expected {expected}")
        return
    if expected is None:
        raise RequirementFailed(f"Requirement failed: {ref['type']} {name} was created concurrently")
    if expected != ref["snapshot-id"]:
        raise RequirementFailed(
            f"Requirement failed: {ref['type']} {name} has changed: expected id {expected} != {ref['snapshot-id']}"
        )


def _assert_number(key: str, field: str, wording: str, default: int | None) -> Callable[[Json | None, Json], None]:
    def check(metadata: Json | None, requirement: Json) -> None:
        expected = integer(requirement, key, str(requirement["type"]))
        if metadata is None and field.startswith("last-"):
            return  # the counters of a table that does not exist cannot have moved
        actual = _existing(metadata).get(field, default)
        if actual != expected:
            raise RequirementFailed(f"Requirement failed: {wording} changed: expected id {expected} != {actual}")

    return check


def _existing(metadata: Json | None) -> Json:
    if metadata is None:
        raise RequirementFailed("Requirement failed: table does not exist")
    return metadata


_TABLE_CHECKS: dict[str, Callable[[Json | None, Json], None]] = {
    "assert-create": _assert_create,
    "assert-table-uuid": _assert_uuid,
    "assert-ref-snapshot-id": _assert_ref,
    "assert-last-assigned-field-id": _assert_number(
        "last-assigned-field-id", "last-column-id", "last assigned field id", None
    ),
    "assert-current-schema-id": _assert_number("current-schema-id", "current-schema-id", "current schema", 0),
    "assert-last-assigned-partition-id": _assert_number(
        "last-assigned-partition-id", "last-partition-id", "last assigned partition id", None
    ),
    "assert-default-spec-id": _assert_number("default-spec-id", "default-spec-id", "default partition spec", 0),
    "assert-default-sort-order-id": _assert_number(
        "default-sort-order-id", "default-sort-order-id", "default sort order", 0
    ),
}
