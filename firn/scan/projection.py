"""How a file's columns become those of a table, where PyIceberg has it wrong (decisions 58 and 65)."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.io import pyarrow as reading
from pyiceberg.types import NestedField, StructType

from firn.scan.nulls import KeepingNulls


class Projection(KeepingNulls):
    """Gives a required column that is not in a file the value of the file's partition, as it does an optional one.

    Hive's files never hold the columns that their table is partitioned by, and those are often part of the key.
    """

    def struct(
        self,
        struct: StructType,
        struct_array: pa.Array | None,
        field_results: list[pa.Array | None],  # type: ignore[valid-type,unused-ignore]
    ) -> pa.Array | None:
        fields = zip(struct.fields, field_results, strict=True)
        known = [self._optional(field) if found is None else field for field, found in fields]
        return super().struct(StructType(*known), struct_array, field_results)

    def _optional(self, field: NestedField) -> NestedField:
        if not field.required or self._projected_missing_fields.get(field.field_id) is None:
            return field
        return field.model_copy(update={"required": False})


def correct_projection() -> None:
    """From now on in this process, in all that PyIceberg reads: it can be told of no other class."""
    reading.ArrowProjectionVisitor = Projection  # type: ignore[misc]
