"""Appends to a keyed table's stores by plain REST: Parquet by PyArrow, manifests by Firn's own writer, no JVM.

Fast enough to be most steps of a long history, and open in the middle: a request can be kept, changed and sent again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any
from uuid import uuid4

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from catalog.files.data_file import DataFileEntry
from catalog.iceberg.reading import current_snapshot
from server.files.footers import Footers
from server.files.manifests import Manifests
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from tests.integration.keyed.model import Change, Row

ARROW = {
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamptz": pa.timestamp("us", "UTC"),
}
Json = dict[str, Any]


@dataclass(frozen=True)
class Store:
    """One store of a keyed table, `("db", "t", "change")`, as a client of the REST protocol meets it."""

    http: httpx.Client
    parts: tuple[str, ...]
    storage: Storage = field(default_factory=Storage, compare=False)
    catalog: str = "lake"

    @property
    def path(self) -> str:
        *namespace, name = self.parts
        return f"/iceberg/v1/{self.catalog}/namespaces/{'%1F'.join(namespace)}/tables/{name}"

    def load(self) -> Json:
        answer = self.http.get(self.path)
        assert answer.is_success, answer.text
        metadata: Json = answer.json()["metadata"]
        return metadata

    def append(self, rows: Sequence[Row], summary: Mapping[str, str] | None = None) -> httpx.Response:
        return self.send(self.prepared(rows, summary))

    def live_files(self, *, through: int | None = None) -> list[str]:
        """The data files of the current snapshot, or of them those up to a sequence number."""
        metadata = self.load()
        head = current_snapshot(metadata)
        files = Manifests(self.storage, metadata).live_files(head) if head is not None else ()
        data = [file for file in files if not file.content]
        return [file.location for file in data if through is None or file.sequence_number <= through]

    def prepared(
        self, rows: Sequence[Row], summary: Mapping[str, str] | None = None, *, removed: Collection[str] = ()
    ) -> Json:
        """A commit whose files are written and that only has to be sent."""
        metadata = self.load()
        schema = next(s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])
        files = [
            DataFileEntry(
                stats=Footers(self.storage, schema).read(_write(self.storage, metadata, schema, part_rows)),
                partition=values,
            )
            for values, part_rows in _by_partition(metadata, schema, rows).items()
        ]
        snapshot_id = secrets.randbits(62)
        now_ms = time.time_ns() // 1_000_000
        snapshot_update = write_snapshot(
            self.storage, metadata, files, removed, snapshot_id=snapshot_id, now_ms=now_ms, summary_extra=summary
        )
        uuid = {"type": "assert-table-uuid", "uuid": metadata["table-uuid"]}
        return {"requirements": [uuid, *snapshot_update.requirements()], "updates": snapshot_update.updates()}

    def send(self, commit: Json, **headers: str) -> httpx.Response:
        return self.http.post(self.path, json=commit, headers=headers)


def as_rows(changes: Sequence[Change]) -> list[Row]:
    """Changes as rows of a change store."""
    return [{**change.row, "_op": change.op, "_source": None} for change in changes]


def _by_partition(metadata: Json, schema: Json, rows: Sequence[Row]) -> dict[tuple[Any, ...], list[Row]]:
    spec = next(
        partition_spec
        for partition_spec in metadata["partition-specs"]
        if partition_spec["spec-id"] == metadata["default-spec-id"]
    )
    names = {field["id"]: field["name"] for field in schema["fields"]}
    assert all(field["transform"] == "identity" for field in spec["fields"])
    sources = [names[field["source-id"]] for field in spec["fields"]]
    grouped: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        grouped.setdefault(tuple(_as_avro(row.get(source)) for source in sources), []).append(row)
    return grouped


def _as_avro(value: Any) -> Any:
    """Manifests count the days of a date."""
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def _write(storage: Storage, metadata: Json, schema: Json, rows: Sequence[Row]) -> str:
    location = f"{metadata['location']}/data/{uuid4()}.parquet"
    columns = pa.schema(
        [
            pa.field(
                field["name"],
                ARROW[field["type"]],
                nullable=not field["required"],
                metadata={"PARQUET:field_id": str(field["id"])},
            )
            for field in schema["fields"]
        ]
    )
    table = pa.Table.from_pylist([{name: row.get(name) for name in columns.names} for row in rows], columns)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    storage.write_new(location, sink.getvalue().to_pybytes())
    return location
