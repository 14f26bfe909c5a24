"""Data and delete files as the REST specification's JSON tells clients of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catalog.files.data_file import PartitionValue
from catalog.iceberg.json import Json
from server.files.manifests import Content
from server.files.partitions import Spec
from server.files.values import bound_json, value_json

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


def content_json(
    file: Mapping[str, Any], spec: Spec, partition: Sequence[PartitionValue], statistics: Mapping[int, str]
) -> Json:
    """A file as its manifest describes it; `statistics` names the columns to tell of, with their types."""
    made: Json = {
        "spec-id": spec.spec_id,
        "content": _CONTENT[file["content"]],
        "file-path": file["file_path"],
        "file-format": file["file_format"].lower(),
        "partition": [value_json(kind, value) for (_, _, kind), value in zip(spec.fields, partition, strict=True)],
        "file-size-in-bytes": file["file_size_in_bytes"],
        "record-count": file["record_count"],
    }
    if file.get("key_metadata") is not None:
        made["key-metadata"] = file["key_metadata"].hex().upper()
    made |= {_wire(name): file[name] for name in _OPTIONAL if file.get(name) is not None}
    if statistics:
        for name in _COUNTS:
            _put(made, name, file, {field_id: (file.get(name) or {}).get(field_id) for field_id in statistics})
        for name in _BOUNDS:
            bounds = file.get(name) or {}
            known = {field_id: kind for field_id, kind in statistics.items() if field_id in bounds}
            _put(made, name, file, {field_id: bound_json(kind, bounds[field_id]) for field_id, kind in known.items()})
    return made


def _put(made: Json, name: str, file: Mapping[str, Any], values: Mapping[int, Any]) -> None:
    """One statistic as parallel lists of columns and values, if the file has it at all."""
    if file.get(name) is None:
        return
    known = {field_id: value for field_id, value in values.items() if value is not None}
    made[_wire(name)] = {"keys": list(known), "values": list(known.values())}


def _wire(name: str) -> str:
    return name.replace("_", "-")
