"""Adds up the statistics of data files from manifests, within bounds of files and time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from catalog.files.column_statistics import ColumnCounter, FileCounts, StoreCounts
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from catalog.locations.location_rule import FileRule
from server.files.manifests import ManifestFile, Manifests
from server.files.storage import Storage
from server.files.values import decode_bound, encode_value

_BEFORE_PROMOTION = {"long": "int", "double": "float"}


class StoredColumnStatistics:
    """Implements `catalog.ports.column_statistics.ColumnStatisticsReading`."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def confined(self, rule: FileRule) -> StoredColumnStatistics:
        return StoredColumnStatistics(self._storage.confined(rule))

    def format_value(self, kind: str, value: Any) -> str | None:
        if value is None:
            return None
        try:
            text = str(encode_value(kind, value))
        except OverflowError:  # a date that no calendar of Python has
            text = str(value)
        if isinstance(value, bool):
            text = text.lower()
        return text if text.isprintable() else "".join(char if char.isprintable() else "\ufffd" for char in text)

    def find_only_value(self, metadata: Json, snapshot: Json, column: int, *, most_files: int) -> str | None:
        manifests, snapshot_id, values = Manifests(self._storage, metadata), snapshot["snapshot-id"], set[object]()
        files = 0
        for line in manifests.of_snapshot(snapshot):
            if line.get("content") or line.get("added_snapshot_id") != snapshot_id:
                continue
            for entry in manifests.entries(line):
                file = entry["data_file"]
                files += 1
                values |= {(file.get(name) or {}).get(column) for name in ("lower_bounds", "upper_bounds")}
                if len(values) > 1 or files > most_files:
                    return None
        raw = next(iter(values), None)
        value = None if not isinstance(raw, bytes) else decode_bound("string", raw)
        return value if isinstance(value, str) else None

    def add_up(self, metadata: Json, counts: StoreCounts, *, most_files: int, seconds: float) -> None:
        head = current_snapshot(metadata)
        if head is None:
            return
        manifests, end = Manifests(self._storage, metadata), time.monotonic() + seconds
        lines = manifests.of_snapshot(head)
        counts.has_deletes |= any(line.get("content") and _count_live(line) != 0 for line in lines)
        data = [line for line in lines if not line.get("content") and _count_live(line) != 0]
        decoder, unread, left = _Decoder(), [], most_files
        for line in data:
            if left <= 0 or time.monotonic() > end:
                unread.append(line)
                counts.files += _count_live(line) or 1
                continue
            read = _add_manifest(manifests, line, counts, decoder)
            counts.files += read
            counts.files_read += read
            left -= read
        counts.whole_ranges &= _add_partitions(manifests, unread, counts.columns, decoder)


class _Decoder:
    """Decodes bounds. Neighbouring files often have equal ones, so each column remembers its last."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, bool], tuple[bytes, Any]] = {}

    def decode(self, counter: ColumnCounter, raw: bytes | None, *, is_upper: bool) -> Any:
        if raw is None:
            return None
        key = (counter.column.id, is_upper)
        known = self._last.get(key)
        if known is not None and known[0] == raw:
            return known[1]
        value = _decode(counter.column.kind, raw)
        self._last[key] = (raw, value)
        return value


def _decode(kind: str, raw: bytes) -> Any:
    """Decode a bound; a file may be older than the promotion of its column."""
    value = decode_bound(kind, raw)
    if value is None and kind in _BEFORE_PROMOTION:
        value = decode_bound(_BEFORE_PROMOTION[kind], raw)
    return None if isinstance(value, float) and value != value else value  # noqa: PLR0124 (NaN alone)


def _add_manifest(manifests: Manifests, line: ManifestFile, counts: StoreCounts, decoder: _Decoder) -> int:
    read = 0
    for entry in manifests.entries(line):
        file = entry["data_file"]
        read += 1
        counts.rows_read += file["record_count"]
        nulls, values = file.get("null_value_counts") or {}, file.get("value_counts") or {}
        lower, upper, sizes = (file.get(name) or {} for name in ("lower_bounds", "upper_bounds", "column_sizes"))
        for field_id, counter in counts.columns.items():
            counter.add(
                FileCounts(
                    rows=file["record_count"],
                    nulls=nulls.get(field_id),
                    values=values.get(field_id),
                    lower=decoder.decode(counter, lower.get(field_id), is_upper=False),
                    upper=decoder.decode(counter, upper.get(field_id), is_upper=True),
                    size=sizes.get(field_id),
                )
            )
    return read


def _add_partitions(
    manifests: Manifests, unread: list[ManifestFile], counters: Mapping[int, ColumnCounter], decoder: _Decoder
) -> set[int]:
    """Widen the ranges of partition columns by the summaries of unread manifests; the columns that all of them have."""
    columns_of_all = set(counters)
    for line in unread:
        spec, of_line = manifests.spec(line["partition_spec_id"]), set[int]()
        for part, summary in zip(spec.json_fields, line.get("partitions") or (), strict=False):
            counter = counters.get(part["source-id"])
            if part["transform"] != "identity" or counter is None:
                continue
            lower = decoder.decode(counter, summary.get("lower_bound"), is_upper=False)
            upper = decoder.decode(counter, summary.get("upper_bound"), is_upper=True)
            if lower is not None and upper is not None:
                counter.widen(lower, upper)
                of_line.add(part["source-id"])
        columns_of_all &= of_line
    return columns_of_all


def _count_live(line: Mapping[str, Any]) -> int | None:
    added, existing = line.get("added_files_count"), line.get("existing_files_count")
    return None if added is None or existing is None else int(added) + int(existing)
