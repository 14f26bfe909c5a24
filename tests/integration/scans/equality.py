"""Equality deletes, committed as Flink would: no engine of the tests writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, current_snapshot, field_by_name
from server.files.locations import local_path
from server.files.manifests import Content, Manifests, Status
from server.files.storage import Storage
from tests.spark_fixtures import RunningServer

_PARQUET_FIELD_ID = b"PARQUET:field_id"


def delete_equal(server: RunningServer, table: str, column: str, values: pa.Array) -> None:
    """Delete the rows of an unpartitioned table that have one of these values."""
    path = f"/iceberg/v1/lake/namespaces/db/tables/{table}"
    metadata: Json = server.http.get(path).raise_for_status().json()["metadata"]
    field = field_by_name(current_schema(metadata), column)
    parent = current_snapshot(metadata)
    assert field is not None
    assert parent is not None
    written = _write(metadata, field, values, snapshot_id := uuid4().int >> 66, parent)
    snapshot = {
        "snapshot-id": snapshot_id,
        "parent-snapshot-id": parent["snapshot-id"],
        "sequence-number": metadata["last-sequence-number"] + 1,
        "timestamp-ms": metadata["last-updated-ms"] + 1,
        "manifest-list": written,
        "schema-id": metadata["current-schema-id"],
        "summary": {"operation": "delete"},
    }
    head = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    body = {"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": snapshot}, head]}
    server.http.post(path, json=body).raise_for_status()


def _write(metadata: Json, field: Json, values: pa.Array, snapshot_id: int, parent: Json) -> str:
    location = f"{metadata['location']}/data/{uuid4()}-equality.parquet"
    size = _write_file(location, field, values)
    manifests = Manifests(Storage(), metadata)
    spec = manifests.spec(metadata["default-spec-id"])
    entry = {
        "status": Status.ADDED,
        "snapshot_id": snapshot_id,
        "data_file": {
            "content": Content.EQUALITY_DELETES,
            "file_path": location,
            "file_format": "PARQUET",
            "partition": {},
            "record_count": len(values),
            "file_size_in_bytes": size,
            "equality_ids": [field["id"]],
        },
    }
    manifest = manifests.write(
        f"{metadata['location']}/metadata/{uuid4()}-m0.avro", [entry], spec, Content.EQUALITY_DELETES, snapshot_id
    )
    number = metadata["last-sequence-number"] + 1
    listed: list[dict[str, Any]] = [
        *manifests.of_snapshot(parent),
        {**manifest, "sequence_number": number, "min_sequence_number": number},
    ]
    manifest_list = f"{metadata['location']}/metadata/snap-{snapshot_id}.avro"
    manifests.write_list(manifest_list, listed, {"snapshot-id": str(snapshot_id), "sequence-number": str(number)})
    return manifest_list


def _write_file(location: str, field: Json, values: pa.Array) -> int:
    path = local_path(location)
    assert path is not None
    column = pa.field(field["name"], values.type, metadata={_PARQUET_FIELD_ID: str(field["id"]).encode()})
    pq.write_table(pa.table([values], schema=pa.schema([column])), path)
    return Path(path).stat().st_size
