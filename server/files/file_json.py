"""Data and delete files in the JSON of the REST specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catalog.files.data_file import PartitionValue
from catalog.iceberg.json import Json
from server.files.manifests import Content
from server.files.partitions import Spec
from server.files.values import encode_bound, encode_value

_CONTENT = {
    Content.DATA: "data",
    Content.POSITION_DELETES: "position-deletes",
    Content.EQUALITY_DELETES: "equality-deletes",
}
_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")
_OPTIONAL = (
    "split_offsets",
    "equality_ids",
    "sort_order_id",
    "first_row_id",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
)


def encode_file(
    file: Mapping[str, Any], spec: Spec, partition: Sequence[PartitionValue], statistics: Mapping[int, str]
) -> Json:
    """Encode a file from its manifest entry; `statistics` has the columns whose statistics to include, by type."""
    encoded: Json = {
        "spec-id": spec.spec_id,
        "content": _CONTENT[file["content"]],
        "file-path": file["file_path"],
        "file-format": file["file_format"].lower(),
        "partition": [encode_value(kind, value) for (_, _, kind), value in zip(spec.fields, partition, strict=True)],
        "file-size-in-bytes": file["file_size_in_bytes"],
        "record-count": file["record_count"],
    }
    if file.get("key_metadata") is not None:
        encoded["key-metadata"] = file["key_metadata"].hex().upper()
    encoded |= {_to_json_name(name): file[name] for name in _OPTIONAL if file.get(name) is not None}
    if statistics:
        for name in _COUNTS:
            _put(encoded, name, file, {field_id: (file.get(name) or {}).get(field_id) for field_id in statistics})
        for name in _BOUNDS:
            bounds = file.get(name) or {}
            kinds = {field_id: kind for field_id, kind in statistics.items() if field_id in bounds}
            _put(
                encoded,
                name,
                file,
                {field_id: encode_bound(kind, bounds[field_id]) for field_id, kind in kinds.items()},
            )
    return encoded


def _put(encoded: Json, name: str, file: Mapping[str, Any], values: Mapping[int, Any]) -> None:
    """Add one statistic as parallel lists of columns and values, if the file has it."""
    if file.get(name) is None:
        return
    present = {field_id: value for field_id, value in values.items() if value is not None}
    encoded[_to_json_name(name)] = {"keys": list(present), "values": list(present.values())}


def _to_json_name(name: str) -> str:
    return name.replace("_", "-")
