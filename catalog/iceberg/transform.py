"""Partition and sort transforms: which column types each of them takes."""

from __future__ import annotations

import re

from catalog.errors import Invalid
from catalog.iceberg.json import HIGHEST_INT, Json, integer, integers
from catalog.iceberg.schema import Field, SchemaIndex

_TIMESTAMPS = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_DATES = _TIMESTAMPS | {"date"}
_TRUNCATABLE = frozenset({"int", "long", "string", "binary", "decimal"})
_ACCEPTED = {
    "year": _DATES,
    "month": _DATES,
    "day": _DATES,
    "hour": _TIMESTAMPS,
    "truncate": _TRUNCATABLE,
    "bucket": _TRUNCATABLE | _DATES | {"time", "fixed", "uuid"},
}
_NOT_COMPARABLE = frozenset({"variant", "geometry", "geography"})
_WITH_WIDTH = re.compile(r"(bucket|truncate)\[(\d+)\]")


def source_id(field: Json, where: str) -> int:
    """The id of the column that a partition or sort field reads; several columns are Invalid."""
    if "source-id" not in field and "source-ids" in field:
        ids = integers(field, "source-ids", where)
        if len(ids) != 1:
            raise Invalid(f"invalid {where}: transforms of several columns are not supported")
        return ids[0]
    return integer(field, "source-id", where)


def canonical(transform: str) -> str:
    """The one spelling by which transforms are compared."""
    return transform.lower()


def check_source(transform: str, source: int, schema: SchemaIndex, where: str) -> Field:
    """The source column; Invalid when the schema lacks it or the transform does not take its type.

    Transforms that this code does not know are let pass: the specification asks readers to ignore them.
    """
    field = schema.by_id.get(source)
    if field is None:
        raise Invalid(f"cannot find source column {source} for {where}")
    if not field.is_primitive:
        raise Invalid(f"{where} cannot use {field.name}: its type is {field.root}")
    name = canonical(transform)
    if match := _WITH_WIDTH.fullmatch(name):
        name, width = match.groups()
        if len(width) > 10 or not 0 < int(width) <= HIGHEST_INT:
            raise Invalid(f"{where} has the transform {transform}: its width must be positive, {HIGHEST_INT} at most")
    accepted = _ACCEPTED.get(name)
    if (accepted is not None and field.root not in accepted) or (name == "identity" and field.root in _NOT_COMPARABLE):
        raise Invalid(f"{where} cannot use {field.name}: {transform} does not take the type {field.root}")
    return field
