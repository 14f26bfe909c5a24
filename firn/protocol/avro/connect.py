"""Kafka Connect's types in Avro schemas: its Avro converter keeps them in properties that begin with `connect.`.

Debezium's types are there only: a date of Debezium is an `int` with `connect.name` = `io.debezium.time.Date`. Logical
types of Avro would lose them, so records are read without logical types, and their values by these properties.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firn.protocol.avro.schemas import DEEPEST_SCHEMA, BadSchemaError

_PLAIN_TYPES = {"int": "int32", "long": "int64", "fixed": "bytes", "enum": "string", "map": "map", "array": "array"}
_LOGICAL_NAMES = {
    "decimal": "org.apache.kafka.connect.data.Decimal",
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
    "timestamp-nanos": "io.debezium.time.NanoTimestamp",
}
"""The types that Avro names itself, for schemas without a name of Connect's."""
_KEPT = ("type", "name", "namespace", "fields", "items", "values", "symbols", "size", "aliases")
Field = dict[str, Any]
"""A field of a schema as Kafka Connect's JSON converter writes it."""


def strip_schema(texts: Sequence[str]) -> list[str]:
    """The schemas with the properties by which Avro reads bytes, and no others."""
    return [json.dumps(_strip(_load(text), 0)) for text in texts]


def build_fields(texts: Sequence[str]) -> Mapping[str, Field]:
    """The fields of the last schema by name, as Kafka Connect's JSON converter describes them; none if it is no record.

    `texts` are schemas that `parse_schema` has taken: none contains itself.
    """
    names = _Names()
    built: Field = {}
    for text in texts:
        built = names.build(_load(text), "")
    return {entry["field"]: entry for entry in built.get("fields", ())}


def to_json_value(value: Any) -> Any:
    """The value as Kafka Connect's JSON converter writes it: bytes as base64."""
    if isinstance(value, dict):
        return {name: to_json_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [to_json_value(item) for item in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadSchemaError("the schema is not one of Avro") from error


def _strip(schema: Any, depth: int) -> Any:
    if depth > DEEPEST_SCHEMA:
        raise BadSchemaError("the schema is too deep")
    if isinstance(schema, list):
        return [_strip(item, depth + 1) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _strip(value, depth + 1) for key, value in schema.items() if key in _KEPT}


@dataclass
class _Names:
    """Builds fields. A named type that schemas refer to many times is one object, so a short schema stays small."""

    known: dict[str, Field] = field(default_factory=dict)

    def build(self, schema: Any, namespace: str) -> Field:
        if isinstance(schema, list):
            branches = [branch for branch in schema if branch not in ("null", {"type": "null"})]
            return self.build(branches[0], namespace) if len(branches) == 1 else {"type": "union"}
        if isinstance(schema, str):
            full = schema if "." in schema or not namespace else f"{namespace}.{schema}"
            return self.known.get(full) or self.known.get(schema) or {"type": _PLAIN_TYPES.get(schema, schema)}
        inner = schema["type"]
        if not isinstance(inner, str):
            return {**self.build(inner, namespace), **_read_properties(schema)}
        return self._build_named(schema, inner, namespace)

    def _build_named(self, schema: Mapping[str, Any], type_: str, namespace: str) -> Field:
        properties = _read_properties(schema)
        if type_ not in ("record", "error", "enum", "fixed"):
            return {**self.build(type_, namespace), **properties}
        name = schema["name"]
        inside = name.rpartition(".")[0] or schema.get("namespace", namespace)
        full = name if "." in name or not inside else f"{inside}.{name}"
        built: Field = {"type": _PLAIN_TYPES.get(type_, "struct"), **properties}
        if type_ in ("record", "error"):
            built["fields"] = [
                {**self.build(entry["type"], inside), "field": entry["name"]} for entry in schema["fields"]
            ]
        self.known[full] = built
        return built


def _read_properties(schema: Mapping[str, Any]) -> Field:
    """Name and parameters of a type: those of Connect, or what Avro says itself."""
    logical, named, parameters = schema.get("logicalType"), schema.get("connect.name"), schema.get("connect.parameters")
    name = named if isinstance(named, str) else _LOGICAL_NAMES.get(logical) if isinstance(logical, str) else None
    arguments = dict(parameters) if isinstance(parameters, dict) else {}
    if logical == "decimal":
        own = {"connect.decimal.precision": schema.get("precision"), "scale": schema.get("scale", 0)}
        arguments = {**own, **arguments}
    return {**({} if name is None else {"name": name}), **({"parameters": arguments} if arguments else {})}
