"""Answers in CSV, for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice

from fastapi.responses import StreamingResponse

_AT_ONCE = 200
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet computes a text that begins with one of these; names and messages of tables may come from anybody."""


def stream_csv(name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> StreamingResponse:
    """Build an answer that writes rows while they come."""
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(write_csv(columns, rows), media_type="text/csv; charset=utf-8", headers=headers)


def write_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Write a heading and rows, some lines at a time."""
    yield _write([columns])
    rest = iter(rows)
    while some := list(islice(rest, _AT_ONCE)):
        yield _write([[_cell(value) for value in row] for row in some])


def _write(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def _cell(value: object) -> object:
    """A value as a cell: a text that a spreadsheet would compute gets a quote in front, which shows it as text."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
