"""Translates updates of a keyed table's own name into those of its base store.

Columns, partitions, sort order and properties pass. They are base's, and base's commit path gives columns to both
stores. Snapshots do not pass: `server/service/images/writes.py` takes those over.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from catalog.errors import Invalid, OtherTable
from catalog.iceberg.json import Json
from catalog.names import TableName

_PASSING = frozenset(
    {
        "set-properties",
        "remove-properties",
        "add-schema",
        "set-current-schema",
        "remove-schemas",
        "add-spec",
        "set-default-spec",
        "remove-partition-specs",
        "add-sort-order",
        "set-default-sort-order",
    }
)
_OF_IMAGES = frozenset({"assert-table-uuid", "assert-ref-snapshot-id"})
"""Requirements about what only the image has: its uuid, which is checked here, and its snapshots."""


def translate_updates(name: TableName, updates: Sequence[Json]) -> Sequence[Json]:
    """The updates for base.

    Invalid, and no CommitRefused, which engines answer with retries, for one that changes data or snapshots.
    """
    for update in updates:
        if update["action"] not in _PASSING:
            raise Invalid(
                f"{name} is a keyed table, and takes no {update['action']} under its own name",
                hint=f"work on the stores {name}.base and {name}.change, or write rows with INSERT, UPDATE or DELETE",
            )
    return updates


def translate_requirements(table_uuid: UUID, requirements: Sequence[Json]) -> list[Json]:
    """The requirements for base. OtherTable when the commit is meant for another table of this name."""
    for requirement in requirements:
        if requirement.get("type") == "assert-table-uuid" and not _is_uuid(requirement.get("uuid"), table_uuid):
            raise OtherTable(
                f"Requirement failed: UUID does not match: expected {requirement.get('uuid')} != {table_uuid}"
            )
    return [requirement for requirement in requirements if requirement.get("type") not in _OF_IMAGES]


def _is_uuid(text: object, expected: UUID) -> bool:
    try:
        return UUID(str(text)) == expected
    except ValueError as error:
        raise Invalid(f"assert-table-uuid: {text!r} is no uuid") from error
