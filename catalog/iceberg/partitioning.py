"""Partition specs: fresh ones for new tables, reuse of equal ones, and what a schema lets them say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catalog.errors import Invalid
from catalog.iceberg.json import HIGHEST_INT, Json, children, integer, read_object, text
from catalog.iceberg.schema import SchemaIndex
from catalog.iceberg.transform import canonical, check_source, source_id

FIRST_FIELD_ID = 1000
UNPARTITIONED_LAST_ID = FIRST_FIELD_ID - 1
_WHERE = "partition field"


def fields_of(spec: Json) -> list[Json]:
    """The spec's fields; Invalid when they are not a list of objects."""
    return children(read_object(spec, "partition spec"), "fields", "partition spec")


def assign_spec_ids(spec: Json | None, ids: Mapping[int, int]) -> Json:
    """The first spec of a new table, over the columns' new ids, its own fields numbered from 1000."""
    fields = []
    for position, field in enumerate(fields_of(spec) if spec else []):
        old = source_id(field, _WHERE)
        if old not in ids:
            raise Invalid(f"cannot find source column {old} for partition field {field.get('name')!r}")
        fields.append(_sourced(field, ids[old], FIRST_FIELD_ID + position))
    return {**(spec or {}), "spec-id": 0, "fields": fields}


def _sourced(field: Json, source: int, field_id: int) -> Json:
    plain = {key: value for key, value in field.items() if key != "source-ids"}
    return {**plain, "source-id": source, "field-id": field_id}


def assign_field_ids(spec: Json, specs: Sequence[Json], *, format_version: int, last_id: int) -> Json:
    """The spec with an id for every field.

    A field that an earlier spec has (same column, same transform) keeps that one's id; in v1, where ids are positions,
    they count up from 1000.  A spec that gives ids to some of its fields only is Invalid.
    """
    fields = fields_of(spec)
    with_ids = sum("field-id" in field for field in fields)
    if with_ids == len(fields):
        return spec
    if with_ids:
        raise Invalid(f"invalid partition spec: {len(fields) - with_ids} of {len(fields)} fields have no 'field-id'")
    if format_version == 1:
        return {**spec, "fields": [{**field, "field-id": FIRST_FIELD_ID + at} for at, field in enumerate(fields)]}
    earlier_ids = {_identity(field): field["field-id"] for earlier in specs for field in earlier["fields"]}
    numbered = []
    for field in fields:
        if _identity(field) not in earlier_ids:
            last_id = max(last_id, UNPARTITIONED_LAST_ID) + 1
            earlier_ids[_identity(field)] = last_id
        numbered.append({**field, "field-id": earlier_ids[_identity(field)]})
    return {**spec, "fields": numbered}


def _identity(field: Json) -> tuple[int, str]:
    return source_id(field, _WHERE), canonical(text(field, "transform", _WHERE))


def _layout(spec: Json) -> list[tuple[int, str, str]]:
    return [(*_identity(field), text(field, "name", _WHERE)) for field in fields_of(spec)]


def choose_spec_id(specs: Sequence[Json], spec: Json) -> tuple[int, bool]:
    """The id of a spec that partitions alike under the same names and True, or an unused higher id and False."""
    layout = _layout(spec)
    for existing in specs:
        if _layout(existing) == layout:
            return spec_id(existing), True
    return max([0, *(spec_id(existing) + 1 for existing in specs)]), False


def spec_id(spec: Json) -> int:
    """The spec's id."""
    return integer(spec, "spec-id", "partition spec")


def check_spec(spec: Json, schema: SchemaIndex, *, format_version: int) -> None:
    """Invalid unless the spec can partition rows of this schema under this format version."""
    names: set[str] = set()
    for position, field in enumerate(fields_of(spec)):
        name, transform = text(field, "name", _WHERE), text(field, "transform", _WHERE)
        source = source_id(field, _WHERE)
        if integer(field, "field-id", _WHERE) > HIGHEST_INT:
            raise Invalid(f"invalid partition spec: {name} has a field id above {HIGHEST_INT}: {field['field-id']}")
        _check_name(name, source, names, schema)
        if format_version == 1 and field["field-id"] != FIRST_FIELD_ID + position:
            raise Invalid(f"invalid partition spec: v1 requires sequential field ids, {name} has {field['field-id']}")
        if canonical(transform) != "void":
            check_partition_source(name, transform, source, schema)


def check_partition_source(name: str, transform: str, source: int, schema: SchemaIndex) -> None:
    """Invalid unless the schema has the column, outside lists and maps, with a type that the transform takes."""
    column = check_source(transform, source, schema, f"partition field {name}")
    for parent in column.parents():
        if parent.root != "struct":
            raise Invalid(f"partition field {name} cannot use {column.name}: it is inside a {parent.root}")


def _check_name(name: str, source: int, names: set[str], schema: SchemaIndex) -> None:
    if not name:
        raise Invalid("invalid partition spec: a field has an empty name")
    if name in names:
        raise Invalid(f"cannot use partition name more than once: {name}")
    names.add(name)
    column = schema.by_name.get(name)
    if source in schema.by_id and column is not None and column.id != source:
        raise Invalid(f"partition field {name} has the name of a column that it is not made from")


def last_field_id(spec: Json) -> int:
    """The highest partition field id that the spec uses; 999 when it has no field."""
    return max([UNPARTITIONED_LAST_ID, *(integer(field, "field-id", _WHERE) for field in fields_of(spec))])


def bindable(spec: Json, schema: SchemaIndex) -> bool:
    """Whether every column that the spec reads is in the schema."""
    return all(
        canonical(field["transform"]) == "void" or source_id(field, _WHERE) in schema.by_id for field in spec["fields"]
    )
