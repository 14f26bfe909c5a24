"""Manifest reader of the dry runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from catalog.files.manifest_entries import ManifestEntry, ManifestFile
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.locations.location_rule import FileRule
from server.files.manifests import Content, Manifests
from server.files.storage import Storage
from server.files.values import decode_bound

_FILE_PATH = 2147483546
"""The reserved field of a position delete's file path."""


class StoredManifests:
    """Implements `catalog.ports.manifest_reading.ManifestReading`."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def confined(self, rule: FileRule) -> StoredManifests:
        return StoredManifests(self._storage.confined(rule))

    def lines(self, metadata: Json, snapshot: Json) -> Sequence[ManifestFile]:
        return [
            ManifestFile(
                location=line["manifest_path"],
                length=int(line.get("manifest_length") or 0),
                files=_count_live(line),
                record=line,
                has_deletes=bool(line.get("content")),
            )
            for line in Manifests(self._storage, metadata).of_snapshot(snapshot)
        ]

    def files(self, metadata: Json, line: ManifestFile, *, bounds_of: int | None = None) -> Iterator[ManifestEntry]:
        manifests = Manifests(self._storage, metadata)
        spec = manifests.spec(line.record["partition_spec_id"])
        kinds = {field["id"]: field["type"] for field in current_schema(metadata)["fields"]}
        for entry in manifests.entries(dict(line.record), with_maps=bounds_of is not None):
            file = entry["data_file"]
            yield ManifestEntry(
                location=file["file_path"],
                content=file["content"],
                size=file["file_size_in_bytes"],
                record_count=file["record_count"],
                partition=spec.values(file["partition"], entry["names"]),
                spec_id=spec.spec_id,
                sequence_number=entry["sequence_number"],
                lower=_read_bound(file, "lower_bounds", bounds_of, kinds),
                upper=_read_bound(file, "upper_bounds", bounds_of, kinds),
                of=_find_data_file(file),
                is_vector=str(file.get("file_format")).upper() == "PUFFIN",
            )

    def find_missing_column(
        self, metadata: Json, line: ManifestFile, columns: Mapping[int, frozenset[int]]
    ) -> int | None:
        wanted = columns.get(line.record["partition_spec_id"], frozenset())
        for entry in Manifests(self._storage, metadata).entries(dict(line.record), with_maps=False) if wanted else ():
            counted = {pair["key"] for pair in entry["data_file"].get("value_counts") or ()}
            if missing := wanted - counted:
                return min(missing)
        return None


def _find_data_file(file: Mapping[str, Any]) -> str | None:
    """Find the single data file of position deletes: the referenced one, or the one that equals both path bounds."""
    named: str | None = file.get("referenced_data_file")
    if named is not None or file["content"] != Content.POSITION_DELETES:
        return named
    lower, upper = (_path_bound(file.get(name)) for name in ("lower_bounds", "upper_bounds"))
    return lower.decode() if lower is not None and lower == upper else None


def _path_bound(bounds: Any) -> bytes | None:
    """Get the bound of the paths in a position delete file; its maps of columns may still be lists of pairs."""
    pairs = bounds.items() if isinstance(bounds, Mapping) else ((pair["key"], pair["value"]) for pair in bounds or ())
    return next((value for field_id, value in pairs if field_id == _FILE_PATH), None)


def _count_live(line: Mapping[str, Any]) -> int | None:
    added, existing = line.get("added_files_count"), line.get("existing_files_count")
    return None if added is None or existing is None else int(added) + int(existing)


def _read_bound(file: Mapping[str, Any], name: str, field_id: int | None, kinds: Mapping[int, Any]) -> int | None:
    raw = None if field_id is None else (file.get(name) or {}).get(field_id)
    value = None if raw is None or field_id is None else decode_bound(kinds[field_id], raw)
    return value if isinstance(value, int) else None
