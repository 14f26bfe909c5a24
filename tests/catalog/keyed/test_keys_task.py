"""Which row of a repeated key stays, and by which rule it may be chosen."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.keyed.keys_task import KeepRule, build_keys_task
from catalog.keyed.spec import KeyedTable, KeySpec
from catalog.names import RelationId, TableName
from firn.protocol.tasks.keys import KeysTask

ORDERS = TableName(("db",), "orders")
FIELDS = [
    {"id": 1, "name": "id", "type": "long", "required": True},
    {"id": 2, "name": "at `once`", "type": "timestamp", "required": False},
    {"id": 3, "name": "tags", "type": {"type": "list", "element-id": 4, "element": "string"}, "required": False},
    {"id": 5, "name": "version", "type": "int", "required": False},
]
BASE: Json = {
    "schemas": [{"schema-id": 0, "type": "struct", "fields": FIELDS}],
    "current-schema-id": 0,
    "current-snapshot-id": 7,
    "refs": {"main": {"type": "branch", "snapshot-id": 7}},
}


def task(keep: KeepRule | None, *, sequence_field: str | None = None, **more: Any) -> KeysTask:
    ids = [RelationId(uuid4()) for _ in range(3)]
    spec = KeySpec(primary_key=("id",), sequence_field=sequence_field)
    keyed = KeyedTable(relation_id=ids[0], spec=spec, base_id=ids[1], change_id=ids[2])
    return build_keys_task(keyed, ORDERS, BASE, keep, linked=more.get("linked", False))


def test_a_count_reads_base_as_it_was_and_is_told_of_nothing_to_write() -> None:
    keys_task = task(None)
    assert (keys_task.snapshot_id, keys_task.resolves, sorted(keys_task.sql)) == (7, False, ["places", "repeated"])
    assert "`firn_job`.`db`.`orders`.`base_at_7_0`" in keys_task.sql["repeated"]


@pytest.mark.parametrize(
    ("keep", "sequence_field", "order"),
    [
        (KeepRule(), None, "ORDER BY w.sequence DESC, w.written DESC, b._file DESC, b._pos DESC"),
        (KeepRule("at `once`"), None, "ORDER BY b.`at ``once``` DESC NULLS LAST, w.sequence DESC"),
        (KeepRule(), "version", "ORDER BY b.`version` DESC NULLS LAST, w.sequence DESC"),
        (KeepRule("version"), "version", "ORDER BY b.`version` DESC NULLS LAST, w.sequence DESC"),
    ],
)
def test_the_newest_row_stays_or_the_one_with_the_highest_value(
    keep: KeepRule, sequence_field: str | None, order: str
) -> None:
    assert order in task(keep, sequence_field=sequence_field).sql["surplus"]


def test_no_row_gives_way_to_itself_where_its_file_is_listed_twice() -> None:
    """Numbered, the two readings of one row would be 1 and 2, and the second would delete the first."""
    assert "dense_rank() OVER" in task(KeepRule()).sql["surplus"]


@pytest.mark.parametrize(
    ("column", "sequence_field", "reason"),
    [
        ("nowhere", None, "no column nowhere"),
        ("tags", None, "no values of which one is the highest"),
        ("at `once`", "version", "the sequence field decides which row of a key is newer: version"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused(column: str, sequence_field: str | None, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        task(KeepRule(column), sequence_field=sequence_field)


def test_a_job_remembers_the_rule() -> None:
    for keep in (KeepRule(), KeepRule("version")):
        assert KeepRule.from_params({"state": "requested", **keep.as_params()}) == keep
    assert KeepRule.from_params({"state": "requested"}) is None
