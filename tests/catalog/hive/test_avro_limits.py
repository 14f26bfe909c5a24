"""Columns that Avro files hold as Hive's AvroSerDe writes them, and those that they do not."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.hive.avro_limits import find_unsupported_fields


def a_list(element: Any) -> dict[str, Any]:
    return {"type": "list", "element-id": 8, "element": element, "element-required": False}


def a_map(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "key-id": 6, "key": key, "value-id": 7, "value": value, "value-required": False}


def a_struct(name: str, kind: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"id": 9, "name": name, "required": False, "type": kind}]}


def held(name: str, kind: Any) -> str | None:
    return find_unsupported_fields(
        [{"id": 1, "name": "id", "required": True, "type": "long"}, {"id": 2, "name": name, "type": kind}]
    )


@pytest.mark.parametrize("kind", ["timestamptz", "decimal(38, 18)", a_list(a_struct("a_1", a_map("string", "date")))])
def test_these_are(kind: Any) -> None:
    assert held("_v1", kind) is None


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("at", "timestamp", "column at (a timestamp)"),
        ("größe", "int", "column größe (a name of other than Latin letters, digits and _)"),
        ("1st", "int", "column 1st (a name of other than Latin letters, digits and _)"),
        ("m", a_map("int", "string"), "column m (a map whose keys are not strings)"),
        ("m", a_map("string", "time"), "column m (a time)"),
        ("s", a_list(a_struct("u", "uuid")), "column s (its field u: a uuid)"),
        ("s", a_struct("a b", "int"), "column s (its field a b: a name of other than Latin letters, digits and _)"),
    ],
)
def test_these_are_not(name: str, kind: Any, reason: str) -> None:
    assert held(name, kind) == reason
