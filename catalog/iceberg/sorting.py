"""Sort orders: fresh ones for new tables, reuse of equal ones, and what a schema lets them say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catalog.errors import Invalid
from catalog.iceberg.json import Json, children, integer, read_object, text
from catalog.iceberg.schema import SchemaIndex
from catalog.iceberg.transform import canonical, check_source, source_id

UNSORTED: Json = {"order-id": 0, "fields": []}
_WHERE = "sort field"


def fields_of(order: Json) -> list[Json]:
    """The order's fields; Invalid when they are not a list of objects."""
    return children(read_object(order, "sort order"), "fields", "sort order")


def assign_sort_ids(order: Json | None, ids: Mapping[int, int]) -> Json:
    """The first order of a new table, over the columns' new ids: id 1, or 0 when it sorts by nothing."""
    if order is None or not fields_of(order):
        return UNSORTED
    fields = []
    for field in fields_of(order):
        old = source_id(field, _WHERE)
        if old not in ids:
            raise Invalid(f"cannot find source column {old} for sort field")
        plain = {key: value for key, value in field.items() if key != "source-ids"}
        fields.append({**plain, "source-id": ids[old]})
    return {**order, "order-id": 1, "fields": fields}


def choose_order_id(orders: Sequence[Json], order: Json) -> tuple[int, bool]:
    """The id of an order that sorts alike and True, or an unused higher id and False; unsorted is always 0."""
    ordering = _ordering(order)
    for existing in orders:
        if _ordering(existing) == ordering:
            return order_id(existing), True
    if not ordering:
        return 0, False
    return max([1, *(order_id(existing) + 1 for existing in orders)]), False


def _ordering(order: Json) -> list[tuple[int, str, str, str]]:
    return [
        (
            source_id(field, _WHERE),
            canonical(text(field, "transform", _WHERE)),
            text(field, "direction", _WHERE).lower(),
            text(field, "null-order", _WHERE).lower(),
        )
        for field in fields_of(order)
    ]


def order_id(order: Json) -> int:
    """The order's id."""
    return integer(order, "order-id", "sort order")


def check_order(order: Json, schema: SchemaIndex) -> None:
    """Invalid unless rows of this schema can be sorted so."""
    for source, transform, direction, nulls in _ordering(order):
        if direction not in {"asc", "desc"}:
            raise Invalid(f"invalid sort field: unknown direction {direction!r}, it must be 'asc' or 'desc'")
        if nulls not in {"nulls-first", "nulls-last"}:
            raise Invalid(f"invalid sort field: unknown null order {nulls!r}, it must be 'nulls-first' or 'nulls-last'")
        check_source(transform, source, schema, "sort field")


def bindable(order: Json, schema: SchemaIndex) -> bool:
    """Whether every column that the order reads is in the schema."""
    return all(source_id(field, _WHERE) in schema.by_id for field in order["fields"])
