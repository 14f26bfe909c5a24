"""An image: a keyed table as one ordinary Iceberg table, for one pair of snapshots (docs/protocols.md#images).

This module says which image belongs to a pair, in which format version it is written, and what its metadata says. The
builder (`optimizer/images`) writes the data files, `server/files/images.py` the manifests and the metadata.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any
from uuid import UUID

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.iceberg.reading import MAIN, current_schema

READ_FORMAT_VERSION = "firn.read.format-version"
IMAGE_BASE = "firn.image.base-snapshot"
IMAGE_CHANGE = "firn.image.change-snapshot"
BUILDER_VERSION = 1
"""Goes into every digest: a builder that writes other files gives them other names."""
FIRST_WITH_VECTORS = 3
_DEFAULTS = ("initial-default", "write-default")
_ONLY_V3 = ("timestamp_ns", "timestamptz_ns", "variant", "unknown", "geometry", "geography")
_OF_ROW_IDS = ("next-row-id",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageKey:
    """All that an image depends on. Two images with the same key have the same files."""

    table_uuid: UUID
    base_snapshot_id: int | None
    change_snapshot_id: int
    watermark: int
    schema_id: int
    format_version: int
    base_metadata: str
    """The location of base's metadata, which names its properties and specs."""
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


def choose_format_version(base: Json) -> int:
    """Format version of the image: 2, which most engines read, unless a property, a type or a default asks for 3.

    Invalid when the property asks for another one, or for 2 where the columns need 3.
    """
    wanted = (base.get("properties") or {}).get(READ_FORMAT_VERSION)
    if wanted not in (None, "2", "3"):
        raise Invalid(f"{READ_FORMAT_VERSION}={wanted!r}: expected 2 or 3")
    reason = _find_need_of_v3(current_schema(base)["fields"])
    if wanted == "2" and reason:
        raise Invalid(
            f"{READ_FORMAT_VERSION}=2: {reason}, which format v2 does not have",
            hint=f"remove the property, or set {READ_FORMAT_VERSION}=3",
        )
    return 3 if wanted == "3" or reason else 2


def build_image_metadata(base: Json, key: ImageKey, snapshot: Json) -> Json:
    """The metadata of an image: base's, with the keyed table's identity and one snapshot.

    `snapshot` has the image's manifest list, totals and, in format v3, row ids.
    """
    sequence = base["last-sequence-number"] + 1
    metadata: dict[str, Any] = {
        **base,
        "format-version": key.format_version,
        "table-uuid": str(key.table_uuid),
        "last-sequence-number": sequence,
        "last-updated-ms": snapshot["timestamp-ms"],
        "current-snapshot-id": key.snapshot_id,
        "snapshots": [snapshot],
        "refs": {MAIN: {"type": "branch", "snapshot-id": key.snapshot_id}},
        "snapshot-log": [{"timestamp-ms": snapshot["timestamp-ms"], "snapshot-id": key.snapshot_id}],
        "metadata-log": [],
        "statistics": [],
        "partition-statistics": [],
    }
    if key.format_version >= FIRST_WITH_VECTORS:
        metadata["next-row-id"] = snapshot["first-row-id"] + snapshot["added-rows"]
        return metadata
    for name in _OF_ROW_IDS:
        metadata.pop(name, None)
    metadata["schemas"] = [_without_defaults(schema) for schema in base["schemas"]]
    return metadata


def find_same_spec(base: Json, spec: Mapping[str, Any]) -> int:
    """The id of base's partition spec that partitions like this one of the change store.

    Invalid when base has none: the stores' specs are changed together.
    """
    fields = _fields_of(spec)
    for other in base["partition-specs"]:
        if _fields_of(other) == fields:
            spec_id: int = other["spec-id"]
            return spec_id
    raise Invalid(f"base has no partition spec like spec {spec['spec-id']} of the change store")


def _fields_of(spec: Mapping[str, Any]) -> list[tuple[int, str]]:
    return [(field["source-id"], field["transform"]) for field in spec["fields"]]


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
