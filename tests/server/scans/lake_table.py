"""A small table whose rows are known and whose manifests are real: data files, deletes of every kind, several specs.

The files themselves are never opened by planning, so they are not written.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyiceberg.conversions import to_bytes
from pyiceberg.transforms import parse_transform

from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from catalog.iceberg.table import apply_updates, build_table
from server.files.manifest_records import Entry
from server.files.manifests import Content, ManifestFile, Manifests, Status
from server.files.partitions import parse_primitive_type
from server.files.storage import Storage

KINDS = {
    "id": "long",
    "n": "int",
    "s": "string",
    "d": "date",
    "x": "double",
    "ts": "timestamp",
    "dec": "decimal(9, 2)",
    "flag": "boolean",
}
IDS = {name: number for number, name in enumerate(KINDS, 1)}
PATH_ID = 2147483546
Row = Mapping[str, Any]
"""Values as partition records hold them: dates in days, timestamps in microseconds."""


@dataclass(frozen=True, eq=False)
class Data:
    """A data file, its rows, and what planning should know of it."""

    path: str
    spec_id: int
    partition: tuple[Any, ...]
    sequence_number: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, eq=False)
class Delete:
    """A delete file: of positions in `paths`, or of the rows equal to one of `values` in `columns`."""

    path: str
    kind: str
    spec_id: int
    partition: tuple[Any, ...]
    sequence_number: int
    scope: str | None = None
    columns: tuple[str, ...] = ()
    values: tuple[tuple[Any, ...], ...] = ()


@dataclass
class LakeTable:
    """The table; each commit adds files and deletes, `drop` and `rewrite` change what manifests say of older ones."""

    place: Path
    specs: Sequence[Sequence[tuple[str, str]]]
    version: int = 2
    metadata: Json = field(default_factory=dict)
    data: list[Data] = field(default_factory=list)
    deletes: list[Delete] = field(default_factory=list)
    with_statistics: bool = True
    _manifests: list[ManifestFile] = field(default_factory=list)
    _pending: dict[tuple[int, Content], list[Entry]] = field(default_factory=lambda: defaultdict(list))
    _numbers: Any = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        fields = [
            {"id": IDS[name], "name": name, "type": kind, "required": name == "id"} for name, kind in KINDS.items()
        ]
        self.metadata = build_table(
            uuid=str(uuid4()),
            location=str(self.place),
            schema={"type": "struct", "fields": fields},
            partition_spec=_spec(self.specs[0]),
            sort_order=None,
            properties={"format-version": str(self.version)},
            now_ms=1_700_000_000_000,
        )
        for spec in self.specs[1:]:
            self._apply([{"action": "add-spec", "spec": _spec(spec)}])

    @property
    def spec_ids(self) -> list[int]:
        return [spec["spec-id"] for spec in self.metadata["partition-specs"]]

    @property
    def next_sequence_number(self) -> int:
        return int(self.metadata["last-sequence-number"]) + 1

    def manifests(self) -> Manifests:
        return Manifests(Storage(), self.metadata)

    def partition_of(self, spec_id: int, row: Row) -> tuple[Any, ...]:
        """Where a row belongs, by the transforms' own rules."""
        values = []
        for part in self.manifests().spec(spec_id).json_fields:
            name = next(name for name, number in IDS.items() if number == part["source-id"])
            transform = parse_transform(part["transform"]).transform(parse_primitive_type(KINDS[name]))
            values.append(None if part["transform"] == "void" else transform(row[name]))
        return tuple(values)

    def add(self, spec_id: int, rows: Sequence[Row]) -> list[Data]:
        """Data files of these rows, one a partition."""
        groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for row in rows:
            key = self.partition_of(spec_id, row)
            groups[tuple("NaN" if is_nan(value) else value for value in key)].append(row)
        added = []
        for group in groups.values():
            partition = self.partition_of(spec_id, group[0])
            path = f"{self.place}/data/{next(self._numbers)}.parquet"
            data = Data(path, spec_id, partition, self.next_sequence_number, tuple(group))
            self._list(data, Content.DATA, "PARQUET", **(column_statistics(group) if self.with_statistics else {}))
            added.append(data)
        self.data += added
        return added

    def delete_positions(self, of: Data, *, scope: str | None) -> Delete:
        """Position deletes in the partition of a file: for all of it, or for that file by `named` or `bounds`."""
        path = f"{self.place}/data/{next(self._numbers)}-deletes.parquet"
        bound = {PATH_ID: of.path.encode()}
        stats = {"lower_bounds": bound, "upper_bounds": bound} if scope == "bounds" else {}
        named = {"referenced_data_file": of.path} if scope == "named" else {}
        return self._add(
            Delete(path, "positions", of.spec_id, of.partition, self.next_sequence_number, of.path if scope else None),
            **stats,
            **named,
        )

    def delete_by_vector(self, of: Data, *, beside: Delete | None = None) -> Delete:
        """A deletion vector, in the file of the one `beside` it; the one before it, if any, is replaced."""
        for old in [delete for delete in self.deletes if delete.kind == "vector" and delete.scope == of.path]:
            self.drop(old)
        path = f"{self.place}/data/{next(self._numbers)}.puffin" if beside is None else beside.path
        vector = Delete(path, "vector", of.spec_id, of.partition, self.next_sequence_number, of.path)
        return self._add(vector, referenced_data_file=of.path, content_offset=4, content_size_in_bytes=40)

    def delete_equal(self, spec_id: int, columns: Sequence[str], rows: Sequence[Row]) -> list[Delete]:
        """Equality deletes of what these rows hold in `columns`, one a partition."""
        groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for row in rows:
            groups[self.partition_of(spec_id, row)].append(row)
        deletes = []
        for partition, group in groups.items():
            values = tuple(tuple(row[name] for name in columns) for row in group)
            path = f"{self.place}/data/{next(self._numbers)}-equality.parquet"
            stats = column_statistics([{name: row[name] for name in columns} for row in group])
            delete = Delete(
                path,
                "equality",
                spec_id,
                partition,
                self.next_sequence_number,
                columns=tuple(columns),
                values=values,
            )
            deletes.append(self._add(delete, equality_ids=[IDS[name] for name in columns], **stats))
        return deletes

    def commit(self, operation: str = "append") -> int:
        """A snapshot with what was added since; its id comes back."""
        snapshot_id = next(self._numbers)
        manifests = self.manifests()
        written = [
            self._written(manifests, entries, spec_id, content, snapshot_id)
            for (spec_id, content), entries in self._pending.items()
            if entries
        ]
        self._pending.clear()
        for file in written:
            file["sequence_number"] = self.next_sequence_number
            file["min_sequence_number"] = file["min_sequence_number"] or self.next_sequence_number
        self._manifests = written + self._manifests
        rows = self._give_row_ids() if self.version > 2 else 0
        location = f"{self.place}/metadata/snap-{snapshot_id}.avro"
        manifests.write_list(location, self._manifests, {})
        parent = current_snapshot(self.metadata)
        snapshot: Json = {
            "snapshot-id": snapshot_id,
            "sequence-number": self.next_sequence_number,
            "timestamp-ms": self.metadata["last-updated-ms"] + 1,
            "manifest-list": location,
            "schema-id": self.metadata["current-schema-id"],
            "summary": {"operation": operation},
        }
        snapshot |= {} if parent is None else {"parent-snapshot-id": parent["snapshot-id"]}
        if self.version > 2:
            snapshot |= {"first-row-id": self.metadata["next-row-id"], "added-rows": rows}
        self._apply(
            [
                {"action": "add-snapshot", "snapshot": snapshot},
                {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
            ]
        )
        return int(snapshot_id)

    def alter(self, *updates: Json) -> None:
        """Change the metadata as a commit without a snapshot does."""
        self._apply(updates)

    def drop(self, gone: Data | Delete) -> None:
        """Mark a file as removed in its manifest, which is written again."""
        if isinstance(gone, Data):
            self.data.remove(gone)
        else:
            self.deletes.remove(gone)
        for entries in self._pending.values():
            entries[:] = [entry for entry in entries if entry["data_file"]["file_path"] != gone.path]
        self._again(lambda entries: any(entry["data_file"]["file_path"] == gone.path for entry in entries), gone.path)

    def rewrite(self) -> None:
        """Write all manifests again, their entries now existing ones with numbers of their own."""
        self._again(lambda _entries: True, None)

    def _again(self, chosen: Any, gone: str | None) -> None:
        manifests = self.manifests()
        kept = []
        for manifest in self._manifests:
            entries = list(manifests.entries(manifest))
            if not entries or not chosen(entries):
                kept.append(manifest)
                continue
            spec = manifests.spec(manifest["partition_spec_id"])
            for entry in entries:
                file = entry["data_file"]
                file["partition"] = spec.record(spec.values(file["partition"], entry["names"]))
                entry["status"] = Status.DELETED if file["file_path"] == gone else Status.EXISTING
            content = Content.POSITION_DELETES if manifest["content"] else Content.DATA
            rewritten = self._written(manifests, entries, spec.spec_id, content, manifest["added_snapshot_id"])
            kept.append({**rewritten, **{k: manifest[k] for k in ("sequence_number", "first_row_id") if k in manifest}})
            kept[-1]["min_sequence_number"] = manifest["min_sequence_number"]
        self._manifests = kept

    def _add(self, delete: Delete, **more: Any) -> Delete:
        content = Content.EQUALITY_DELETES if delete.kind == "equality" else Content.POSITION_DELETES
        self._list(delete, content, "PUFFIN" if delete.kind == "vector" else "PARQUET", **more)
        self.deletes.append(delete)
        return delete

    def _list(self, listed_file: Data | Delete, content: Content, form: str, **more: Any) -> None:
        spec = self.manifests().spec(listed_file.spec_id)
        file = {
            "content": content,
            "file_path": listed_file.path,
            "file_format": form,
            "partition": spec.record(listed_file.partition),
            "record_count": len(listed_file.rows) if isinstance(listed_file, Data) else 1,
            "file_size_in_bytes": 1000,
            **more,
        }
        listed = Content.DATA if content is Content.DATA else Content.POSITION_DELETES
        self._pending[listed_file.spec_id, listed].append(
            {"status": Status.ADDED, "snapshot_id": None, "data_file": file}
        )

    def _written(
        self, manifests: Manifests, entries: Sequence[Entry], spec_id: int, content: Content, snapshot_id: int
    ) -> ManifestFile:
        location = f"{self.place}/metadata/m{next(self._numbers)}.avro"
        return manifests.write(location, entries, manifests.spec(spec_id), content, snapshot_id)

    def _give_row_ids(self) -> int:
        id_count = 0
        for manifest in self._manifests:
            if manifest["content"] == 0 and manifest.get("first_row_id") is None:
                manifest["first_row_id"] = self.metadata["next-row-id"] + id_count
                id_count += manifest["added_rows_count"] + manifest["existing_rows_count"]
        return id_count

    def _apply(self, updates: Sequence[Json]) -> None:
        now_ms = self.metadata["last-updated-ms"] + 1
        self.metadata = apply_updates(self.metadata, updates, now_ms=now_ms, previous_location=None)


def _spec(fields: Sequence[tuple[str, str]]) -> Json:
    spec_fields = [
        {"name": f"{name}_{transform.partition('[')[0]}", "source-id": IDS[name], "transform": transform}
        for name, transform in fields
    ]
    return {"fields": spec_fields}


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def column_statistics(rows: Sequence[Row]) -> dict[str, dict[int, Any]]:
    """Exact counts and bounds, but text is cut to two characters, as long text is."""
    statistics: dict[str, dict[int, Any]] = defaultdict(dict)
    for name in rows[0]:
        values = [row[name] for row in rows]
        known = [value for value in values if value is not None and not is_nan(value)]
        number, kind = IDS[name], parse_primitive_type(KINDS[name])
        statistics["value_counts"][number] = len(values)
        statistics["null_value_counts"][number] = values.count(None)
        if KINDS[name] == "double":
            statistics["nan_value_counts"][number] = sum(map(is_nan, values))
        if known:
            lower, upper = min(known), max(known)
            if isinstance(lower, str):
                lower, upper = lower[:2], upper if len(upper) <= 2 else upper[:1] + chr(ord(upper[1]) + 1)
            statistics["lower_bounds"][number] = to_bytes(kind, lower)
            statistics["upper_bounds"][number] = to_bytes(kind, upper)
    return dict(statistics)


def a_row(number: int, **more: Any) -> Row:
    """A row with everything derived from a number."""
    return {
        "id": number,
        "n": number % 7,
        "s": f"row{number:03}",
        "d": 20_000 + number,
        "x": number / 4,
        "ts": (20_000 + number) * 86_400_000_000,
        "dec": Decimal(number).scaleb(-2),
        "flag": number % 2 == 0,
        **more,
    }
