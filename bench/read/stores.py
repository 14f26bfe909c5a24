"""Writes the stores of keyed tables without Spark, as fast as a writer with few rows can."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from bench.orders import COLUMNS, Orders
from bench.running import RunningServer
from catalog.files.data_file import DataFileEntry
from catalog.iceberg.reading import current_schema
from server.files.footers import Footers
from server.files.snapshots import write_snapshot
from server.files.storage import Storage

_TYPES = {"BIGINT": "long", "INT": "int", "DOUBLE": "double", "STRING": "string", "TIMESTAMP": "timestamptz"}
_TABLES = count()
_SNAPSHOTS = count(5_000_000_000)


def create_table(server: RunningServer) -> str:
    """A new empty keyed table of orders, partitioned by day; its name without the catalog."""
    if "bench" not in [namespace["name"] for namespace in server.client.namespaces.list()]:
        server.client.namespaces.create("bench")
    name = f"bench.orders{next(_TABLES)}"
    columns = [column.split() for column in COLUMNS.split(", ")]
    described = [{"name": column, "type": _TYPES[kind], "comment": None} for column, kind in columns]
    waits = {"firn.read.max-wait": "60 s", "firn.read.on-timeout": "refuse"}  # no reader is shown an older state
    server.client.tables.create(f"lake.{name}", described, primary_key=["id"], partition_by=["day"], properties=waits)
    return name


def fill_table(server: RunningServer, orders: Orders) -> str:
    """A new keyed table with the initial rows in base, in one file for each day."""
    name = create_table(server)
    StoreWriter(server.url, name, "base").commit([pq.read_table(orders.load)])
    return name


def split_changes(orders: Orders, commits: int, seed: int = 42) -> list[pa.Table]:
    """The first batch's upserts and deletes as so many commits, with their kind in `_op`. Each key comes once."""
    rows = pq.read_table(orders.both[0])
    rows = rows.rename_columns(["_op" if name == "op" else name for name in rows.column_names])
    rows = rows.take(np.random.default_rng(seed).permutation(len(rows)))
    cuts = np.linspace(0, len(rows), commits + 1).astype(int)
    return [rows.slice(first, last - first) for first, last in pairwise(cuts)]


@dataclass
class StoreWriter:
    """The only writer of one store."""

    url: str
    table: str
    """The keyed table's name in the catalog `lake`, such as `db.orders`."""
    store: str = "change"
    _metadata: dict[str, Any] = field(init=False)
    _http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        """Load the store."""
        self._http = httpx.Client(trust_env=False, timeout=60)
        self._metadata = self._http.get(self._path).raise_for_status().json()["metadata"]

    @property
    def _path(self) -> str:
        return f"{self.url}/iceberg/v1/lake/namespaces/{self.table.replace('.', '%1F')}/tables/{self.store}"

    def commit(self, parts: Iterable[pa.Table]) -> int:
        """One commit, with one file for each part and day, sorted by key; its snapshot."""
        files = [file for rows in parts for file in self._write_files(rows)]
        now_ms = int(time.time() * 1000)
        added = write_snapshot(Storage(), self._metadata, files, (), snapshot_id=next(_SNAPSHOTS), now_ms=now_ms)
        body = {"requirements": added.requirements(), "updates": added.updates()}
        self._metadata = self._http.post(self._path, json=body).raise_for_status().json()["metadata"]
        return int(added.snapshot["snapshot-id"])

    def _write_files(self, rows: pa.Table) -> Iterator[DataFileEntry]:
        schema = current_schema(self._metadata)
        arrow = schema_to_pyarrow(Schema.model_validate(schema), include_field_ids=True)
        directory = Path(self._metadata["location"].removeprefix("file://")) / "data"
        directory.mkdir(parents=True, exist_ok=True)
        for day in sorted(pc.unique(rows["day"]).to_pylist()):
            path = directory / f"{uuid4()}.parquet"
            of_day = rows.filter(pc.equal(rows["day"], day)).sort_by("id")
            pq.write_table(_under(of_day, arrow), path, compression="zstd", store_schema=False)
            yield DataFileEntry(stats=Footers(Storage(), schema).read(path.as_uri()), partition=(day,))


def _under(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with a store's columns; those that they lack are null."""
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
