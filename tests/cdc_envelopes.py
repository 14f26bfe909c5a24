"""Records of change data capture as their sources write them. Each function names the version that it follows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Record = tuple[bytes | None, bytes | None]
"""Key and value."""


def to_bytes(document: Any) -> bytes | None:
    return None if document is None else json.dumps(document).encode()


def field(name: str, type_: str, logical: str | None = None, **parameters: str) -> dict[str, Any]:
    """A field of Kafka Connect's JSON converter (Kafka 3.9)."""
    named = {} if logical is None else {"name": logical, "version": 1}
    extra = {"parameters": parameters} if parameters else {}
    return {"type": type_, "optional": True, "field": name, **named, **extra}


def debezium(
    op: str,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    key: Mapping[str, Any] | None = None,
    source: Mapping[str, Any] | None = None,
    fields: Sequence[Mapping[str, Any]] | None = None,
    key_fields: Sequence[Mapping[str, Any]] = (),
) -> Record:
    """A record of Debezium 3.0.8.Final. `fields` add the schema part."""
    payload = {
        "before": before,
        "after": after,
        "source": {**MYSQL_SOURCE, **(source or {})},
        "transaction": None,
        "op": op,
        "ts_ms": 1732636800123,
        "ts_us": 1732636800123456,
        "ts_ns": 1732636800123456789,
    }
    if fields is None:
        return to_bytes(key), to_bytes(payload)
    row = {"type": "struct", "fields": list(fields), "optional": True, "name": "shop.shop.orders.Value"}
    schema = {
        "type": "struct",
        "fields": [{**row, "field": "before"}, {**row, "field": "after"}, field("op", "string")],
        "optional": False,
        "name": "shop.shop.orders.Envelope",
        "version": 2,
    }
    key_schema = {"type": "struct", "fields": list(key_fields), "optional": False, "name": "shop.shop.orders.Key"}
    wrapped_key = None if key is None else {"schema": key_schema, "payload": key}
    return to_bytes(wrapped_key), to_bytes({"schema": schema, "payload": payload})


MYSQL_SOURCE: Mapping[str, Any] = {
    "version": "3.0.8.Final",
    "connector": "mysql",
    "name": "shop",
    "ts_ms": 1732636800000,
    "snapshot": "false",
    "db": "shop",
    "sequence": None,
    "table": "orders",
    "server_id": 223344,
    "gtid": None,
    "file": "mysql-bin.000003",
    "pos": 154,
    "row": 0,
}
POSTGRESQL_SOURCE: Mapping[str, Any] = {
    "version": "3.0.8.Final",
    "connector": "postgresql",
    "name": "crm",
    "db": "crm",
    "schema": "public",
    "table": "customers",
    "txId": 733,
    "lsn": 33845104,
    "xmin": None,
}
MONGODB_SOURCE: Mapping[str, Any] = {
    "version": "3.0.8.Final",
    "connector": "mongodb",
    "name": "docs",
    "db": "docs",
    "collection": "people",
    "table": None,
    "ord": 31,
    "lsid": None,
    "txnNumber": None,
    "wallTime": None,
}


def mongodb(op: str, after: str | None, identity: str) -> Record:
    """A record of Debezium 3.0.8.Final for MongoDB 7; documents and ids are texts of extended JSON."""
    source = {name: value for name, value in MONGODB_SOURCE.items() if value is not None}
    payload = {
        "before": None,
        "after": after,
        "updateDescription": None,
        "source": source,
        "op": op,
        "ts_ms": 1732636800123,
        "transaction": None,
    }
    return to_bytes({"id": identity}), to_bytes(payload)


def canal(
    type_: str,
    data: Sequence[Mapping[str, str | None]] | None,
    *,
    old: Sequence[Mapping[str, str | None]] | None = None,
    types: Mapping[str, str] | None = None,
    table: str = "orders",
    **more: Any,
) -> Record:
    """A flat message of Canal 1.1.8 for MySQL 8.0."""
    message = {
        "data": data,
        "database": "shop",
        "es": 1732636800000,
        "gtid": "",
        "id": 5,
        "isDdl": False,
        "mysqlType": types or {"id": "bigint unsigned", "amount": "decimal(9,2)", "note": "varchar(64)"},
        "old": old,
        "pkNames": ["id"],
        "sql": "",
        "sqlType": {"id": -5, "amount": 3, "note": 12},
        "table": table,
        "ts": 1732636800456,
        "type": type_,
        **more,
    }
    return None, to_bytes(message)


def maxwell(type_: str, data: Mapping[str, Any] | None, *, old: Mapping[str, Any] | None = None, **more: Any) -> Record:
    """A record of Maxwell 1.41.2 for MySQL 8.0, with its default key."""
    record = {"database": "shop", "table": "orders", "type": type_, "ts": 1732636800, "xid": 8132, "commit": True}
    row = {} if data is None else {"data": data}
    before = {} if old is None else {"old": old}
    key = {"database": "shop", "table": "orders", "pk.id": (data or {}).get("id")}
    return to_bytes(key), to_bytes({**record, **row, **before, **more})


def dms(operation: str, data: Mapping[str, Any] | None, **more: Any) -> Record:
    """A record of AWS DMS for a table of PostgreSQL, as its public documentation describes it: none was recorded."""
    metadata = {
        "timestamp": "2024-07-29T00:58:44.895275Z",
        "record-type": "data",
        "operation": operation,
        "partition-key-type": "schema-table",
        "schema-name": "public",
        "table-name": "orders",
        "transaction-id": 1140,
        **more.pop("metadata", {}),
    }
    return b"public.orders", to_bytes({"data": data, "metadata": metadata, **more})
