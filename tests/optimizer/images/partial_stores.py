"""Stores of a keyed table with partial columns, partitioned by `day`, a part of the key (day, id)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import ListType, LongType, NestedField, StringType

from firn.protocol.partial import SET, SET_ID
from firn.protocol.tasks.image import Layer
from firn.scan.lineage import LineageFile
from tests.optimizer.images.stores import LINEAGE, OP, Stores, list_image_rows
from tests.partial_model import PartialChange

KEY = ("day", "id")
FIELDS = (
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "day", StringType(), required=True),
    NestedField(3, "v", StringType(), required=False),
    NestedField(4, "tags", ListType(element_id=5, element_type=StringType(), element_required=False), required=False),
    NestedField(6, "n", LongType(), required=False),
)
COLUMNS = tuple(field.name for field in FIELDS)
IDS = {field.name: field.field_id for field in FIELDS}


class PartialStores(Stores):
    """Base and change; files of change may lack the column `_set`, as those of engines that know nothing of it."""

    def __init__(self, directory: Path, properties: Mapping[str, str] = MappingProxyType({})) -> None:
        self.directory, self.files, self.written, self.deletes = (
            directory,
            list[LineageFile](),
            0,
            dict[str, DataFile](),
        )
        catalog = InMemoryCatalog("test", warehouse=directory.as_uri())
        catalog.create_namespace("db")
        spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
        self.base = catalog.create_table("db.base", Schema(*FIELDS), partition_spec=spec, properties=dict(properties))
        self.change = catalog.create_table("db.change", Schema(*FIELDS), partition_spec=spec)
        own = NestedField(SET_ID, SET, StringType(), required=False)
        # The catalog in memory would number the fields itself.
        schema = Schema(*self.base.schema().fields, OP, own, schema_id=0)
        self.change.metadata = self.change.metadata.model_copy(update={"schemas": [schema]})
        self.ids = {field.name: field.field_id for field in self.base.schema().fields}

    def write_base_rows(self, rows: Sequence[dict[str, Any]]) -> None:
        schema = schema_to_pyarrow(self.base.schema(), include_field_ids=False)
        self.base.append(pa.Table.from_pylist(list(rows), schema=schema))

    def write_commit(
        self, changes: Sequence[tuple[int, int, PartialChange]], *, number: int, has_set: bool = True
    ) -> None:
        """One file for each day: changes with their row ids and sequence numbers, in a file of this number."""
        own = [field for field in self.change.schema().fields if has_set or field.name != SET]
        schema = schema_to_pyarrow(Schema(*own, *LINEAGE), include_field_ids=True)
        for day in sorted({change.row["day"] for _, _, change in changes}):
            rows = [
                {
                    **change.row,
                    "_op": change.op,
                    SET: None
                    if change.set_columns is None
                    else ",".join(str(self.ids[name]) for name in change.set_columns),
                    "_row_id": row_id,
                    LINEAGE[1].name: sequence,
                }
                for row_id, sequence, change in changes
                if change.row["day"] == day
            ]
            file = self._write(pa.Table.from_pylist(rows, schema=schema), day)
            self.files.append(LineageFile(file=file, first_row_id=None, sequence_number=number))


def read_rows(stores: PartialStores, layer: Layer) -> list[tuple[Any, ...]]:
    """What a reader of the image sees, sorted."""
    return sorted((tuple(row[name] for name in COLUMNS) for row in list_image_rows(stores, layer)), key=repr)


def read_pack_days(layer: Layer) -> list[set[str]]:
    """The days in each pack."""
    paths = [pack.location.removeprefix("file://") for pack in layer.packs]
    return [{*pq.read_table(path, columns=["day"], partitioning=None)["day"].to_pylist()} for path in paths]
