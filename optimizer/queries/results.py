"""Rows of a result as pages of text and as a file, within the limits of a query."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from firn.errors import Refused
from firn.protocol.tasks.query import QueryDone, QueryMessage, QueryPage
from optimizer.queries.values import show_column

PAGE_ROWS = 1_000
Say = Callable[[QueryMessage], None]
_PATH = re.compile(r"(?:[a-z][a-z0-9+.-]*:/{0,2})?/[^\s'\"]+")


@dataclass
class Result:
    """The rows that have been sent, and what is left of the limits."""

    most_rows: int
    most_bytes: int
    say: Say
    export: bool = True
    rows: int = 0
    left: int = -1
    truncated: bool = False
    batches: list[pa.RecordBatch] = field(default_factory=list)
    schema: pa.Schema | None = None

    def take(self, batch: pa.RecordBatch) -> bool:
        """Send a batch as a page; False once the result is as large as it may be."""
        if self.left < 0:
            self.left = self.most_bytes
        room = self.most_rows - self.rows
        self.truncated = len(batch) > room
        kept = batch.slice(0, room)
        self._refuse_large_rows(kept)
        shown = [show_column(column) for column in kept.columns]
        rows: list[list[str | None]] = []
        for row in zip(*shown, strict=True):
            self.left -= sum(len(text) + 4 if text else 4 for text in row)
            if self.left < 0 and (rows or self.rows):
                self.truncated = True
                break
            rows.append(list(row))
        self.schema = batch.schema
        if rows:
            self.say(QueryMessage(page=QueryPage(rows=rows)))
            self.rows += len(rows)
            self.batches.append(kept.slice(0, len(rows)))
        return not self.truncated

    def _refuse_large_rows(self, batch: pa.RecordBatch) -> None:
        """Values become text in this process, and then go to a browser: a row of a gigabyte helps nobody."""
        if len(batch) and batch.slice(0, 1).get_total_buffer_size() // len(batch) > 4 * self.most_bytes:
            raise Refused(
                f"a row is larger than {self.most_bytes // 2**20:,} MiB, the largest result",
                hint="Select a part of the value, such as substring(column, 1, 1000).",
            )

    def end(self) -> QueryDone:
        """The end, with the rows as a file."""
        parquet = None
        if self.export and self.schema is not None:
            parquet = base64.b64encode(self._write_parquet(self.schema)).decode()
        return QueryDone(rows=self.rows, truncated=self.truncated, parquet=parquet)

    def _write_parquet(self, schema: pa.Schema) -> bytes:
        table = pa.Table.from_batches(self.batches, schema)
        table = table.rename_columns(number_names(table.column_names))
        try:
            return _write(table)
        except (pa.ArrowException, NotImplementedError):  # a type that Parquet does not have, such as an interval
            shown = [[text for chunk in column.chunks for text in show_column(chunk)] for column in table.columns]
            return _write(pa.table([pa.array(texts, pa.string()) for texts in shown], names=table.column_names))


def _write(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def number_names(names: list[str]) -> list[str]:
    """The names, each once: a second `id` becomes `id_1`."""
    used, numbered = set[str](), list[str]()
    for name in names:
        unique, number = name, 0
        while unique in used:
            number += 1
            unique = f"{name}_{number}"
        used.add(unique)
        numbered.append(unique)
    return numbered


def hide_paths(text: str) -> str:
    """The text without paths of files: people know tables."""
    return _PATH.sub("a file", text)
