"""Records as Kafka's client gives them, and a change store in memory, for tests of the light engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
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
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from firn.drains.layout import ChangeLayout

TYPES: dict[str, IcebergType] = {
    "id": LongType(),
    "n": IntegerType(),
    "amount": DecimalType(9, 2),
    "day": DateType(),
    "name": StringType(),
    "ok": BooleanType(),
    "list": ListType(100, IntegerType(), element_required=False),
    "place": StructType(NestedField(101, "x", IntegerType(), required=False)),
    "ratio": DoubleType(),
    "small": FloatType(),
    "at": TimestampType(),
    "seen": TimestamptzType(),
    "data": BinaryType(),
}


@dataclass(frozen=True)
class Message:
    """See confluent_kafka.Message."""

    data: bytes | None
    number: int = 0
    of_key: bytes | None = None
    part: int = 0
    of_headers: list[tuple[str, bytes]] | None = field(default=None)

    def value(self) -> bytes | None:
        return self.data

    def key(self) -> bytes | None:
        return self.of_key

    def partition(self) -> int:
        return self.part

    def offset(self) -> int:
        return self.number

    def error(self) -> Any:
        return None

    def timestamp(self) -> tuple[int, int]:
        return (1, 1_795_000_000_000)

    def headers(self) -> list[tuple[str, bytes]] | None:
        return self.of_headers


def make_store(
    directory: Path, *names: str, spec: Any = None, types: dict[str, IcebergType] | None = None, **properties: Any
) -> Table:
    """A change store with these columns of TYPES, by default all, and the key `id`; properties are texts."""
    known = types or TYPES
    chosen = {name: known[name] for name in names or known}
    own = {"_op": StringType(), "_source": StringType()}
    if properties.get("firn.partial") == "true":
        own["_set"] = StringType()
    fields = [
        NestedField(number, name, kind, required=False) for number, (name, kind) in enumerate((chosen | own).items(), 1)
    ]
    catalog = InMemoryCatalog("test", warehouse=directory.as_uri())
    catalog.create_namespace_if_not_exists("db")
    return catalog.create_table(
        ("db", f"t{len(list(directory.iterdir()))}"),
        Schema(*fields),
        partition_spec=spec or PartitionSpec(),
        properties={"firn.primary-key": "id", **properties},
    )


def make_layout(directory: Path, *names: str, **properties: Any) -> ChangeLayout:
    return ChangeLayout.of(make_store(directory, *names, **properties))
