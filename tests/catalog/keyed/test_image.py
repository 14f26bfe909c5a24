"""Which image belongs to a pair, and in which format it is (docs/protocols.md#images)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from catalog.iceberg.json import Json
from catalog.keyed.image import ImageKey, choose_format_version, explain_v3

KEY = ImageKey(
    table_uuid=UUID(int=1),
    base_snapshot_id=2,
    change_snapshot_id=3,
    watermark=4,
    schema_id=0,
    format_version=2,
    base_metadata="s3://lake/orders/base/metadata/00001.metadata.json",
)


@pytest.mark.parametrize(
    "other",
    [
        {"table_uuid": UUID(int=2)},
        {"base_snapshot_id": None},
        {"change_snapshot_id": 4},
        {"watermark": 5},
        {"schema_id": 1},
        {"format_version": 3},
        {"base_metadata": "s3://lake/orders/base/metadata/00002.metadata.json"},
        {"hides": "day < 2026-01-01"},
        {"builder_version": 99},
    ],
    ids=lambda other: next(iter(other)),
)
def test_everything_that_an_image_depends_on_gives_it_another_identity(other: dict[str, Any]) -> None:
    one, two = (
        (key.etag, key.snapshot_id, key.name_build("a"), key.metadata_location("s3://lake/orders"))
        for key in (KEY, replace(KEY, **other))
    )
    assert all(mine != theirs for mine, theirs in zip(one, two, strict=True))
    assert replace(KEY).etag == KEY.etag


def a_base(**column: Any) -> Json:
    fields = [{"id": 1, "name": "id", "type": "long", "required": True}]
    fields.append({"id": 2, "name": "c", "type": "string", "required": False, **column})
    return {"current-schema-id": 0, "schemas": [{"schema-id": 0, "type": "struct", "fields": fields}]}


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ({}, None),
        ({"write-default": "x"}, None),
        ({"initial-default": "x"}, "column c has a default for rows that were written before it"),
        ({"type": "variant"}, "column c has type variant"),
        ({"type": "geometry(OGC:CRS84)"}, "column c has type geometry(OGC:CRS84)"),
        ({"type": {"type": "list", "element": "timestamp_ns"}}, "column c has type timestamp_ns"),
        ({"type": {"type": "map", "key": "string", "value": "unknown"}}, "column c has type unknown"),
        (
            {"type": {"type": "struct", "fields": [{"id": 3, "name": "d", "type": "timestamptz_ns"}]}},
            "column c has type timestamptz_ns",
        ),
    ],
)
def test_columns_that_format_v2_cannot_express_make_the_image_v3(column: dict[str, Any], reason: str | None) -> None:
    base = a_base(**column)
    assert explain_v3(base, "2") == reason
    assert choose_format_version(base, "2") == (2 if reason is None else 3)
    assert choose_format_version(base, "3") == 3
    assert explain_v3(base, "3") == (reason or "firn.read.format-version is 3")
