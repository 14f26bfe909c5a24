"""A schema with nested types."""

from __future__ import annotations

from tests.catalog.iceberg.build import (
    column,
    schema,
)

NESTED = schema(
    column(10, "id", required=True),
    column(
        20,
        "tags",
        {"type": "map", "key-id": 21, "key": "string", "value-id": 22, "value-required": False, "value": "string"},
    ),
    column(
        30,
        "lines",
        {
            "type": "list",
            "element-id": 31,
            "element-required": True,
            "element": {"type": "struct", "fields": [column(32, "sku", "string"), column(33, "amount", "int")]},
        },
    ),
    column(40, "address", {"type": "struct", "fields": [column(41, "zip", "string")]}),
)
