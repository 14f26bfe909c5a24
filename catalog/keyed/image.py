"""An image: a keyed table as one ordinary Iceberg table, for one pair of snapshots (docs/protocols.md#images).

This module says which image belongs to a pair, in which format version it is written, and what its metadata says. The
builder (`optimizer/images`) writes the data files, `server/files/images.py` the manifests and the metadata.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any
from uuid import UUID

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.iceberg.reading import MAIN, current_schema

IMAGE_BASE = "firn.image.base-snapshot"
IMAGE_CHANGE = "firn.image.change-snapshot"
IMAGE_HIDES = "firn.image.hides"
"""In the summary of an image's snapshot: the rows that are too old for reads, as text."""
IMAGE_SNAPSHOT = "firn.image.snapshot"
"""A property of an image's metadata: its snapshot id, under which clients can pin it."""
BUILDER_VERSION = 3
"""Goes into every digest: a builder that writes other files gives them other names."""
FIRST_WITH_VECTORS = 3
LISTED_IMAGES = 10
"""The number of images that a table's metadata lists as snapshots."""
_DEFAULTS = ("initial-default", "write-default")
_ONLY_V3 = ("timestamp_ns", "timestamptz_ns", "variant", "unknown", "geometry", "geography")
_OF_ROW_IDS = ("next-row-id",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageKey:
    """All that an image depends on. Two images with the same key have the same files."""

    table_uuid: UUID
    base_snapshot_id: int | None
    change_snapshot_id: int | None
    """None while nothing has been appended to the change store."""
    watermark: int
    schema_id: int
    format_version: int
    base_metadata: str
    """The location of base's metadata, which names its properties and specs."""
    hides: str | None = None
    """The rows that are too old for reads, such as `day < 2026-01-01` (docs/protocols.md, rule 5.14)."""
    builder_version: int = BUILDER_VERSION

    @property
    def digest(self) -> bytes:
        """32 bytes."""
        return hashlib.sha256(repr(astuple(self)).encode()).digest()

    def name_build(self, attempt: str) -> str:
        """The beginning of the names of the files of one build.

        A builder that died leaves files, so the next one takes other names for its own.
        """
        return f"{self.digest.hex()[:24]}-{attempt}"

    @property
    def etag(self) -> str:
        """Of the served metadata."""
        return self.digest.hex()

    @property
    def snapshot_id(self) -> int:
        """63 bits, as Iceberg's readers expect them."""
        return int.from_bytes(self.digest[:8], "big") >> 1

    def metadata_location(self, table_location: str) -> str:
        """ClickHouse accepts names of this form alone."""
        return f"{table_location}/metadata/00001-{UUID(bytes=self.digest[8:24])}.metadata.json"


def choose_format_version(base: Json, wanted: str) -> int:
    """Format version of the image: as wanted (`2` or `3`), but always 3 if a column of base needs it."""
    return 2 if explain_v3(base, wanted) is None else 3


def explain_v3(base: Json, wanted: str) -> str | None:
    """Why an image of this base is in format v3, which fewer engines read; None if it is in v2."""
    need = _find_need_of_v3(current_schema(base)["fields"])
    return need or ("firn.read.format-version is 3" if wanted == "3" else None)


def build_image_metadata(base: Json, change: Json, key: ImageKey, snapshots: Sequence[Json], location: str) -> Json:
    """The metadata of an image: base's, with the identity and the location of the keyed table.

    Engines write the rows of an `INSERT` to the directories of the change store, which takes the files over.

    `snapshots` are those of earlier images and, at the end, that of the image: with manifest list, totals and, in
    format v3, row ids. There are none if both stores are empty.
    """
    metadata: dict[str, Any] = {
        **base,
        "format-version": key.format_version,
        "table-uuid": str(key.table_uuid),
        "location": location,
        "current-snapshot-id": snapshots[-1]["snapshot-id"] if snapshots else None,
        "snapshots": list(snapshots),
        "refs": {MAIN: {"type": "branch", "snapshot-id": snapshots[-1]["snapshot-id"]}} if snapshots else {},
        "snapshot-log": [{name: snapshot[name] for name in ("timestamp-ms", "snapshot-id")} for snapshot in snapshots],
        "metadata-log": [],
        "statistics": [],
        "partition-statistics": [],
        "properties": {**(base.get("properties") or {}), **_list_write_properties(change)},
    }
    if snapshots:
        metadata["properties"][IMAGE_SNAPSHOT] = str(snapshots[-1]["snapshot-id"])
        metadata["last-updated-ms"] = snapshots[-1]["timestamp-ms"]
        metadata["last-sequence-number"] = snapshots[-1]["sequence-number"]
    if key.format_version >= FIRST_WITH_VECTORS:
        if snapshots:
            metadata["next-row-id"] = snapshots[-1]["first-row-id"] + snapshots[-1]["added-rows"]
        return metadata
    for name in _OF_ROW_IDS:
        metadata.pop(name, None)
    metadata["schemas"] = [_without_defaults(schema) for schema in base["schemas"]]
    return metadata


def chain_snapshots(earlier: Sequence[Json], snapshot: Json) -> list[Json]:
    """The snapshots of earlier images and of a new one, as one line of descent for `VERSION AS OF`.

    `earlier` begins with the newest. Its metadata lists at most `LISTED_IMAGES`; readers of Iceberg refuse snapshots
    that are newer than their successor, so the line ends before such a one.
    """
    chain = [snapshot]
    for older in earlier[: LISTED_IMAGES - 1]:
        newer = chain[-1]
        is_older = all(older[name] <= newer[name] for name in ("timestamp-ms", "sequence-number"))
        if not is_older or older["snapshot-id"] == snapshot["snapshot-id"]:
            break
        chain[-1] = {**newer, "parent-snapshot-id": older["snapshot-id"]}
        chain.append({name: value for name, value in older.items() if name != "parent-snapshot-id"})
    return chain[::-1]


def find_same_spec(base: Json, spec: Mapping[str, Any]) -> int:
    """The id of base's partition spec that partitions like this one of the change store.

    Invalid when base has none, which the rules for commits to the change store prevent.
    """
    spec_id = look_for_spec(base, spec)
    if spec_id is None:
        raise Invalid(f"base has no partition spec like spec {spec['spec-id']} of the change store")
    return spec_id


def look_for_spec(base: Json, spec: Mapping[str, Any]) -> int | None:
    """The id of base's partition spec that partitions like this one; None when base has none."""
    fields = _fields_of(spec)
    return next((other["spec-id"] for other in base["partition-specs"] if _fields_of(other) == fields), None)


def _fields_of(spec: Mapping[str, Any]) -> list[tuple[int, str]]:
    return [(field["source-id"], field["transform"]) for field in spec["fields"]]


def _list_write_properties(change: Json) -> dict[str, str]:
    location, properties = str(change["location"]).rstrip("/"), change.get("properties") or {}
    return {
        "write.data.path": properties.get("write.data.path") or f"{location}/data",
        "write.metadata.path": properties.get("write.metadata.path") or f"{location}/metadata",
        "write.format.default": "parquet",
        **dict.fromkeys(("write.delete.mode", "write.update.mode", "write.merge.mode"), "merge-on-read"),
    }


def _without_defaults(schema: Json) -> Json:
    fields = [{name: value for name, value in field.items() if name not in _DEFAULTS} for field in schema["fields"]]
    return {**schema, "fields": fields}


def _find_need_of_v3(fields: list[Json]) -> str | None:
    """Why these fields, or those inside of them, need format v3; None when they do not."""
    for field in fields:
        if field.get("initial-default") is not None:
            return f"column {field['name']} has a default for rows that were written before it"
        if kind := _find_v3_type(field["type"]):
            return f"column {field['name']} has type {kind}"
    return None


def _find_v3_type(kind: Any) -> str | None:
    if isinstance(kind, str):
        return kind if kind.partition("(")[0] in _ONLY_V3 else None
    parts = [kind.get("element"), kind.get("key"), kind.get("value"), *(f["type"] for f in kind.get("fields", ()))]
    return next((kind for part in parts if part is not None and (kind := _find_v3_type(part))), None)
