"""Results of queries in the database: pages of rows, and a file."""

from __future__ import annotations

import base64
import io
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import orjson

from catalog.ports.queries import PARQUET
from catalog.ports.store import Database
from catalog.queries.query import QueryId, ResultColumn
from firn.protocol.tasks.query import QueryDone, QueryMessage

PAGE_ROWS = 1_000
Rows = list[list[str | None]]


class ProgressNote(Protocol):
    """Where the progress of a running query is noted."""

    progress: float | None


@dataclass
class ResultSink:
    """Stores the parts of a result as they come."""

    database: Database
    query_id: QueryId
    running: ProgressNote
    pages: int = 0
    rows: list[list[str | None]] = field(default_factory=list)
    done: QueryDone | None = None

    def take(self, message: QueryMessage) -> None:
        """Take one message of the engine."""
        if message.progress is not None:
            self.running.progress = message.progress
        if message.columns is not None:
            columns = [ResultColumn(column.name, column.type) for column in message.columns]
            with self.database.writing() as uow:
                uow.queries.set_columns(self.query_id, columns)
        if message.page is not None:
            self.rows += message.page.rows
            while len(self.rows) >= PAGE_ROWS:
                self._store(PAGE_ROWS)
        if message.done is not None:
            if self.rows:
                self._store(len(self.rows))
            if message.done.parquet is not None:
                content = base64.b64decode(message.done.parquet)
                with self.database.writing() as uow:
                    uow.queries.put_part(self.query_id, PARQUET, content)
            self.done = message.done

    def _store(self, count: int) -> None:
        content = zlib.compress(orjson.dumps(self.rows[:count]), 1)
        with self.database.writing() as uow:
            uow.queries.put_part(self.query_id, self.pages, content)
        del self.rows[:count]
        self.pages += 1


def write_texts(names: Sequence[str], pages: Iterable[Rows]) -> bytes:
    """Rows of texts as a Parquet file."""
    import pyarrow as pa  # noqa: PLC0415 - importing it takes a second, and most servers never need it
    import pyarrow.parquet as pq  # noqa: PLC0415

    rows = [row for page in pages for row in page]
    columns = [pa.array([row[position] for row in rows], pa.string()) for position in range(len(names))]
    sink = io.BytesIO()
    pq.write_table(pa.table(columns, names=list(names)), sink, compression="zstd")
    return sink.getvalue()
