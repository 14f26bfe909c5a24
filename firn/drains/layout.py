"""What the light engine needs to know about a change store, and which tables it leaves to Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from firn.drains.decoders import EMPTY, JSON_FORMATS
from firn.drains.errors import NeedsSpark
from firn.protocol.answers.logs import LogOut
from firn.protocol.avro.wire_format import AVRO_FORMATS
from firn.protocol.cdc.formats import CDC_JSON_FORMATS

OP, SET = "_op", "_set"
_OWN = (OP, "_source", SET)
_TYPES = (
    *(BooleanType, IntegerType, LongType, FloatType, DoubleType, StringType),
    *(BinaryType, DateType, DecimalType, TimestampType, TimestamptzType),
)
_TRANSFORMS = (
    *(IdentityTransform, BucketTransform, TruncateTransform),
    *(YearTransform, MonthTransform, DayTransform, HourTransform),
)
_SCHEMES = ("file", "s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs")
_FORBIDDEN = ("write.location-provider.impl", "write.py-location-provider.impl", "encryption.key-id")


@dataclass(frozen=True)
class ChangeLayout:
    """The columns of a change store, and what a change needs. `_op` and the like are not among the columns."""

    table: Table
    columns: Sequence[NestedField]
    key: Sequence[str]
    sequence_field: str | None
    partition_columns: Sequence[str]
    is_partition_scoped: bool
    is_partial: bool
    is_insert_only: bool

    @classmethod
    def of(cls, table: Table) -> ChangeLayout:
        """Read it from the store's schema and properties; NeedsSpark for a table without a key."""
        properties, schema = table.properties, table.schema()
        key = [name.strip() for name in properties.get("firn.primary-key", "").split(",") if name.strip()]
        if not key:
            raise NeedsSpark("the change store names no primary key", is_of_table=True)
        is_partial = properties.get("firn.partial") == "true"
        own = _OWN if is_partial else _OWN[:2]
        sources = {field.source_id for field in table.spec().fields}
        return cls(
            table=table,
            columns=[field for field in schema.fields if field.name not in own],
            key=key,
            sequence_field=properties.get("firn.sequence-field"),
            partition_columns=[field.name for field in schema.fields if field.field_id in sources],
            is_partition_scoped=properties.get("firn.key.scope") == "partition",
            is_partial=is_partial,
            is_insert_only=properties.get("firn.insert-only") == "true",
        )

    @property
    def default_op(self) -> str:
        """The operation of a record that names none."""
        return "I" if self.is_insert_only else "U"

    @cached_property
    def needed(self) -> list[str]:
        """The columns that no change may leave out."""
        return [*self.key, *([self.sequence_field] if self.sequence_field else [])]

    @cached_property
    def delete_columns(self) -> list[str]:
        """The columns that a delete needs."""
        needed = {*self.needed, *(self.partition_columns if self.is_partition_scoped else ())}
        return [field.name for field in self.columns if field.name in needed]

    @cached_property
    def target(self) -> pa.Schema:
        """The columns, `_op`, and on partial tables `_set`, with their types in Arrow."""
        own = [self.table.schema().find_field(name) for name in (OP, *((SET,) if self.is_partial else ()))]
        return schema_to_pyarrow(Schema(*self.columns, *own), include_field_ids=False)

    @property
    def types(self) -> Mapping[str, str]:
        """The types by column, as decoders name them: values of nested columns are not decoded."""
        return {field.name: _name_type(field.field_type) for field in self.columns}


def require_light(layout: ChangeLayout, log: LogOut) -> None:
    """Raise NeedsSpark if the light engine cannot drain this table."""
    reasons = _find_reasons(layout, log)
    if reasons:
        raise NeedsSpark(reasons[0], is_of_table=True)


def _find_reasons(layout: ChangeLayout, log: LogOut) -> list[str]:
    reasons = list[str]()
    if log.format not in (*JSON_FORMATS, *CDC_JSON_FORMATS, *AVRO_FORMATS):
        reasons.append(f"records of the format {log.format} are decoded in Spark only")
    if log.truncates == EMPTY and log.format not in JSON_FORMATS:
        reasons.append("firn.log.truncates is empty: only Spark empties a table")
    return reasons + find_table_reasons(layout)


def find_table_reasons(layout: ChangeLayout) -> list[str]:
    """Why only Spark writes changes of a table; empty if PyArrow can."""
    table, properties = layout.table, layout.table.properties
    reasons = [
        f"column {field.name} has the type {field.field_type}"
        for field in layout.columns
        if not _is_known(field.field_type)
    ]
    reasons += _explain_partitions(table.spec(), [field.field_id for field in layout.columns])
    if properties.get("write.format.default", "parquet").lower() != "parquet":
        reasons.append(f"write.format.default is {properties['write.format.default']}")
    reasons += [f"{name} is set" for name in _FORBIDDEN if name in properties]
    if any(str(table.config.get(name, "false")) != "false" for name in ("s3.remote-signing-enabled", "s3.signer")):
        reasons.append("the server signs each request to the object store")
    scheme = table.location().partition("://")[0] if "://" in table.location() else "file"
    if scheme not in _SCHEMES and not (scheme == "hdfs" and find_spec("hdfs_native") is not None):
        reasons.append(f"its files are at {scheme}://")
    return reasons


def _explain_partitions(spec: PartitionSpec, columns: Sequence[int]) -> list[str]:
    return [
        f"it is partitioned by {field.transform} of {field.name}"
        for field in spec.fields
        if not isinstance(field.transform, _TRANSFORMS) or field.source_id not in columns
    ]


def _is_known(kind: IcebergType) -> bool:
    match kind:
        case StructType():
            return all(_is_known(field.field_type) for field in kind.fields)
        case ListType():
            return _is_known(kind.element_type)
        case MapType():
            return _is_known(kind.key_type) and _is_known(kind.value_type)
        case _:
            return isinstance(kind, _TYPES)


def _name_type(kind: IcebergType) -> str:
    if isinstance(kind, DecimalType):
        return f"decimal({kind.precision},{kind.scale})"
    return str(kind) if kind.is_primitive else "nested"
