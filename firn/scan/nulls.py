"""Keeps null lists and maps of structs null. PyIceberg turns them into empty ones (apache/iceberg-python#3833)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import pyarrow as reading
from pyiceberg.types import ListType, MapType


class KeepingNulls(reading.ArrowProjectionVisitor):
    """Projects a file's columns to a table's schema, and restores the nulls of columns that PyIceberg rebuilds."""

    def list(self, list_type: ListType, list_array: pa.Array | None, value_array: pa.Array | None) -> pa.Array | None:
        return _nulls_of(list_array, super().list(list_type, list_array, value_array))

    def map(
        self, map_type: MapType, map_array: pa.Array | None, key_result: pa.Array | None, value_result: pa.Array | None
    ) -> pa.Array | None:
        return _nulls_of(map_array, super().map(map_type, map_array, key_result, value_result))


def _nulls_of(array: pa.Array | None, rebuilt: pa.Array | None) -> pa.Array | None:
    if array is None or rebuilt is None or array.null_count == rebuilt.null_count:
        return rebuilt
    chosen = pc.if_else(array.is_valid(), rebuilt, pa.nulls(len(rebuilt), rebuilt.type))
    return chosen.cast(rebuilt.type)  # this type has the field ids
