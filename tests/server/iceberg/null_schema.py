"""A schema for requests with nulls."""

from __future__ import annotations

from catalog.iceberg.json import Json

FIELD: Json = {"id": 1, "name": "id", "type": "long", "required": True, "doc": "d"}
SCHEMA: Json = {"type": "struct", "schema-id": 0, "fields": [FIELD], "identifier-field-ids": [1]}
