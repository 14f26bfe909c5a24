"""Debezium's envelopes as Confluent's Avro converter writes them, with their schemas in a registry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.cdc_envelopes import MYSQL_SOURCE, Record
from tests.schema_registry import Registry, encode, nullable, record

SOURCE: Mapping[str, str] = {name: value for name, value in MYSQL_SOURCE.items() if isinstance(value, str)}
DAYS = {"type": "int", "connect.version": 1, "connect.name": "io.debezium.time.Date"}
MICROS = {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"}
AMOUNT = {
    "type": "bytes",
    "logicalType": "decimal",
    "precision": 9,
    "scale": 2,
    "connect.version": 1,
    "connect.parameters": {"scale": "2", "connect.decimal.precision": "9"},
    "connect.name": "org.apache.kafka.connect.data.Decimal",
}


def build_schema(types: Mapping[str, Any]) -> Any:
    """The schema of an envelope as Debezium 3.0.8.Final gives it to Confluent's Avro converter 7.7."""
    value = {**record("Value", **types), "namespace": "shop.shop.orders", "connect.name": "shop.shop.orders.Value"}
    source = record("Source", **dict.fromkeys(SOURCE, "string"))
    envelope = record(
        "Envelope",
        before=nullable(value),
        after=nullable("Value"),
        source={**source, "namespace": "io.debezium.connector.mysql"},
        op="string",
        ts_ms=nullable("long"),
    )
    return {**envelope, "namespace": "shop.shop.orders", "connect.version": 2}


def build_key_schema(types: Mapping[str, Any]) -> Any:
    """The schema of a key."""
    return {**record("Key", **types), "namespace": "shop.shop.orders"}


@dataclass
class AvroSource:
    """A connector: it registers the schemas of a table when it writes the first record of a new shape."""

    registry: Registry
    _ids: dict[str, int] = field(default_factory=dict)

    def write(
        self,
        op: str,
        *,
        types: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
        key: Mapping[str, Any] | None = None,
        **source: str,
    ) -> Record:
        """A record. `types` are Avro's, by column; those of the key are among them."""
        key_names = (key or {}).keys()
        schema = build_schema({name: type_ if name in key_names else nullable(type_) for name, type_ in types.items()})
        row = {"before": before, "after": after, "source": {**SOURCE, **source}, "op": op, "ts_ms": 1732636800123}
        key_schema = build_key_schema({name: types[name] for name in key_names})
        written_key = None if key is None else encode(self.find_id("key", key_schema), key_schema, key)
        return written_key, encode(self.find_id("value", schema), schema, row)

    def find_id(self, subject: str, schema: Any) -> int:
        """The id of a schema, which is registered now if it is new."""
        text = json.dumps(schema)
        if text not in self._ids:
            self._ids[text] = self.registry.register(subject, schema)
        return self._ids[text]
