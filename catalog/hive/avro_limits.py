"""What Avro files hold as Hive writes and reads them: its AvroSerDe has fewer types and names than a table can have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_HELD = {"boolean", "int", "long", "float", "double", "string", "binary", "date", "timestamptz"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def find_unsupported_fields(fields: Sequence[Mapping[str, Any]]) -> str | None:
    """The first of a table's columns that Avro has no form for, in words; None when it has one for all."""
    return next((f"column {field['name']} ({reason})" for field in fields if (reason := _why_not(field))), None)


def _why_not(field: Mapping[str, Any]) -> str | None:
    if not _NAME.fullmatch(field["name"]):
        return "a name of other than Latin letters, digits and _"
    return _why_no_type(field["type"])


def _why_no_type(kind: Any) -> str | None:
    if isinstance(kind, str):
        return None if kind in _HELD or kind.startswith("decimal") else f"a {kind}"
    if kind["type"] == "struct":
        inner = ((field["name"], _why_not(field)) for field in kind["fields"])
        return next((f"its field {name}: {reason}" for name, reason in inner if reason), None)
    if kind["type"] == "list":
        return _why_no_type(kind["element"])
    if kind["key"] != "string":
        return "a map whose keys are not strings"
    return _why_no_type(kind["value"])
