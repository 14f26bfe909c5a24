"""Avro schemas of Iceberg's manifests (format versions 2 and 3) and manifest lists (1 to 3).

The names and field ids are the Iceberg specification's; readers go by the ids.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

Schema = dict[str, Any]

_PRIMITIVES: dict[str, Any] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
}


def primitive(kind: str, field_id: int) -> Any:
    """The Avro type of an Iceberg primitive; `field_id` names the fixed types apart."""
    if kind.startswith("decimal"):
        precision, scale = (int(number) for number in kind[len("decimal(") : -1].split(","))
        size = next(n for n in range(1, 17) if 10**precision <= 1 << 8 * n - 1)
        fixed = {"type": "fixed", "size": size, "name": f"decimal_{field_id}", "logicalType": "decimal"}
        return fixed | {"precision": precision, "scale": scale}
    if kind.startswith("fixed"):
        return {"type": "fixed", "size": int(kind[len("fixed[") : -1]), "name": f"fixed_{field_id}"}
    if kind == "uuid":
        return {"type": "fixed", "size": 16, "name": f"uuid_{field_id}", "logicalType": "uuid"}
    return _PRIMITIVES[kind]


def avro_name(name: str) -> str:
    """A column name as Avro allows it, in Iceberg's way of writing it."""
    escaped = re.sub(r"[^A-Za-z0-9_]", lambda char: f"_x{ord(char[0]):X}", name)
    return f"_{escaped}" if escaped[:1].isdigit() else escaped


def manifest_schema(version: int, partition: Sequence[tuple[int, str, str]]) -> Schema:
    """Schema of a manifest; `partition` is (field id, name, Iceberg type) of each partition field."""
    fields = [
        _field(134, "content", "int"),
        _field(100, "file_path", "string"),
        _field(101, "file_format", "string"),
        _field(102, "partition", _partition(partition)),
        _field(103, "record_count", "long"),
        _field(104, "file_size_in_bytes", "long"),
        _optional(108, "column_sizes", _by_field(117, 118, "long")),
        _optional(109, "value_counts", _by_field(119, 120, "long")),
        _optional(110, "null_value_counts", _by_field(121, 122, "long")),
        _optional(137, "nan_value_counts", _by_field(138, 139, "long")),
        _optional(125, "lower_bounds", _by_field(126, 127, "bytes")),
        _optional(128, "upper_bounds", _by_field(129, 130, "bytes")),
        _optional(131, "key_metadata", "bytes"),
        _optional(132, "split_offsets", _list(133, "long")),
        _optional(135, "equality_ids", _list(136, "int")),
        _optional(140, "sort_order_id", "int"),
        _optional(143, "referenced_data_file", "string"),
    ]
    if version >= 3:
        fields += [
            _optional(142, "first_row_id", "long"),
            _optional(144, "content_offset", "long"),
            _optional(145, "content_size_in_bytes", "long"),
        ]
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            _field(0, "status", "int"),
            _optional(1, "snapshot_id", "long"),
            _optional(3, "sequence_number", "long"),
            _optional(4, "file_sequence_number", "long"),
            _field(2, "data_file", {"type": "record", "name": "r2", "fields": fields}),
        ],
    }


def manifest_list_schema(version: int) -> Schema:
    """Schema of a manifest list."""
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            _field(509, "contains_null", "boolean"),
            _optional(518, "contains_nan", "boolean"),
            _optional(510, "lower_bound", "bytes"),
            _optional(511, "upper_bound", "bytes"),
        ],
    }
    fields = [
        _field(500, "manifest_path", "string"),
        _field(501, "manifest_length", "long"),
        _field(502, "partition_spec_id", "int"),
    ]
    if version > 1:
        fields += [_field(517, "content", "int"), _field(515, "sequence_number", "long")]
        fields.append(_field(516, "min_sequence_number", "long"))
    counted = _field if version > 1 else _optional
    fields += [
        _field(503, "added_snapshot_id", "long"),
        counted(504, "added_files_count", "int"),
        counted(505, "existing_files_count", "int"),
        counted(506, "deleted_files_count", "int"),
        counted(512, "added_rows_count", "long"),
        counted(513, "existing_rows_count", "long"),
        counted(514, "deleted_rows_count", "long"),
        _optional(507, "partitions", _list(508, summary)),
        _optional(519, "key_metadata", "bytes"),
    ]
    if version >= 3:
        fields.append(_optional(520, "first_row_id", "long"))
    return {"type": "record", "name": "manifest_file", "fields": fields}


def _partition(partition: Sequence[tuple[int, str, str]]) -> Schema:
    fields = [_optional(field_id, avro_name(name), primitive(kind, field_id)) for field_id, name, kind in partition]
    return {"type": "record", "name": "r102", "fields": fields}


def _field(field_id: int, name: str, kind: Any) -> Schema:
    return {"name": name, "type": kind, "field-id": field_id}


def _optional(field_id: int, name: str, kind: Any) -> Schema:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}


def _list(element_id: int, kind: Any) -> Schema:
    return {"type": "array", "items": kind, "element-id": element_id}


def _by_field(key_id: int, value_id: int, kind: str) -> Schema:
    """A map with integer keys, which Avro only has as a list of pairs."""
    pairs = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [_field(key_id, "key", "int"), _field(value_id, "value", kind)],
    }
    return {"type": "array", "items": pairs, "logicalType": "map"}
