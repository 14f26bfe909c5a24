"""Projects a file's columns to a table's, and corrects errors of PyIceberg (decisions 58 and 65)."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.io import pyarrow as reading
from pyiceberg.types import NestedField, StructType

from firn.scan.nulls import KeepingNulls


class Projection(KeepingNulls):
    """Fills a required column that a file lacks with the file's partition value, as PyIceberg does for optional ones.

    Hive's files never hold the partition columns, which are often part of the key.
    """

    def struct(
        self,
        struct: StructType,
        struct_array: pa.Array | None,
        field_results: list[pa.Array | None],  # type: ignore[valid-type,unused-ignore]
    ) -> pa.Array | None:
        fields = zip(struct.fields, field_results, strict=True)
        present = [self._optional(field) if array is None else field for field, array in fields]
        return super().struct(StructType(*present), struct_array, field_results)

    def _optional(self, field: NestedField) -> NestedField:
        if not field.required or self._projected_missing_fields.get(field.field_id) is None:
            return field
        return field.model_copy(update={"required": False})


def correct_projection() -> None:
    """Replace PyIceberg's projection in this process. PyIceberg has no setting for it."""
    reading.ArrowProjectionVisitor = Projection  # type: ignore[misc]
