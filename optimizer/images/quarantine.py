"""Reads records of a quarantine for people: reasons by count, the newest records, or one record as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import StaticTable

from firn.protocol.answers.quarantine import QuarantineReason, QuarantineRecord
from firn.protocol.tasks.feed import QuarantineRows, QuarantineTask
from optimizer.images.pair import Check, TooLarge

LONGEST_VALUE = 200_000
"""Characters of a key, a value or a header."""
MOST_REASONS = 200
_LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)
_LISTED = ("topic_id", "partition", "offset", "timestamp", "reason", "column", "at")
_WHOLE = (*_LISTED, "key", "value", "headers")


def read_quarantine(task: QuarantineTask, check: Check) -> QuarantineRows:
    """Read what the task names. TooLarge if the files are above its limit. What `check` raises ends the task."""
    table = StaticTable.from_metadata(task.metadata, task.file_io)
    is_whole = task.partition is not None and task.offset is not None
    where = f"partition = {task.partition} AND offset = {task.offset}" if is_whole else AlwaysTrue()
    scan = table.scan(row_filter=where, selected_fields=_WHOLE if is_whole else _LISTED)
    files = [file.file for file in scan.plan_files()]
    check(sorted({file.file_path for file in files}))
    size = sum(file.file_size_in_bytes for file in files)
    if size > task.most_bytes:
        raise TooLarge(f"its files have {size:,} bytes, and the most are {task.most_bytes:,}")
    rows = scan.to_arrow().to_pylist()
    rows.sort(key=lambda row: (row["at"] or _LONG_AGO, row["offset"]), reverse=True)
    counts = Counter((row["reason"], row["column"]) for row in rows).most_common(MOST_REASONS)
    return QuarantineRows(
        total=len(rows),
        reasons=[
            QuarantineReason(reason=reason or "", column=column, records=number) for (reason, column), number in counts
        ],
        records=[_show(row) for row in rows[: task.most_records]],
    )


def _show(row: Mapping[str, Any]) -> QuarantineRecord:
    texts = {name: _show_bytes(row.get(name)) for name in ("key", "value")}
    headers = [(header["key"] or "", _show_bytes(header["value"])) for header in row.get("headers") or ()]
    return QuarantineRecord.model_validate(
        {
            **{name: row[name] for name in _LISTED},
            **{name: _cut(text) for name, text in texts.items()},
            "headers": [{"name": name[:LONGEST_VALUE], "value": _cut(text)} for name, text in headers],
            "cut": [name for name, text in (*texts.items(), *headers) if len(text or "") > LONGEST_VALUE],
        }
    )


def _show_bytes(data: bytes | None) -> str | None:
    """The text of UTF-8; hexadecimal digits for other bytes, and for texts with control characters."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"0x{data[:LONGEST_VALUE].hex()}"
    is_readable = all(character.isprintable() or character in "\n\r\t" for character in text)
    return text if is_readable else f"0x{data[:LONGEST_VALUE].hex()}"


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:LONGEST_VALUE]
