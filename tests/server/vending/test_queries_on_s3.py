"""Queries read tables on S3 through PyIceberg: DuckDB gets no credentials, and opens nothing there."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.catalog.memory import InMemoryCatalog

from firn.protocol.tasks.query import QueryLimits, QueryMessage, QueryTable, QueryTask
from optimizer.queries.execution import run_query
from optimizer.queries.tables import Relation, TableSource
from tests.server.vending.vault import SERVERS_KEYS


def test_a_table_on_s3_is_read_in_a_stream(s3: str, bucket: str) -> None:
    file_io = {"s3.endpoint": s3, "s3.region": "us-east-1", **SERVERS_KEYS}
    catalog = InMemoryCatalog("c", warehouse=f"s3://{bucket}/wh", **file_io)
    catalog.create_namespace("d")
    table = catalog.create_table("d.t", pa.schema([("a", pa.int64()), ("b", pa.string())]))
    for start in (0, 10):
        table.append(pa.table({"a": range(start, start + 10), "b": ["x"] * 10}))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    named = QueryTable(view="t", name="d.t", metadata=table.metadata_location, snapshot_id=snapshot.snapshot_id)
    opened: list[str] = []
    source = TableSource.open(named, file_io, lambda _view, files: opened.extend(files), 10)
    assert (Relation.of(source).paths, len(opened)) == ([], 1 + 2 + 2)
    messages: list[QueryMessage] = []
    limits = QueryLimits(rows=10, result_bytes=1_000, memory_bytes=2**27, threads=1, files=10)
    statement = "WITH q AS (SELECT a FROM t) SELECT count(*), sum(x.a) FROM q x JOIN q y USING (a)"
    task = QueryTask(statement=statement, tables=[named], limits=limits, file_io=file_io)
    run_query(task, lambda _view, _files: None, messages.append)
    assert [message.page.rows for message in messages if message.page is not None] == [[["20", "190"]]]
