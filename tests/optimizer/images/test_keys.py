"""Keys of files that an engine wrote, as the builder of images checks them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from firn.protocol.tasks.image import KeyReport, KeysTask
from optimizer.images.keys import check_keys


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of ids and days, partitioned by the day."""
    catalog = InMemoryCatalog("test", warehouse=tmp_path.as_uri())
    catalog.create_namespace("db")
    columns = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "day", StringType()))
    return catalog.create_table(
        "db.t", columns, partition_spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
    )


def check(table: Table, path: Path, columns: Sequence[tuple[str, int, pa.Array]]) -> KeyReport:
    """Write a file of columns with these field ids, and check its keys."""
    fields = [pa.field(name, values.type, metadata={"PARQUET:field_id": str(id_)}) for name, id_, values in columns]
    pq.write_table(pa.table([values for _, _, values in columns], schema=pa.schema(fields)), path)
    task = KeysTask(
        metadata=table.metadata_location, primary_key=["id", "day"], files=[path.as_uri()], finds_repeated=True
    )
    return check_keys(task, lambda _: None)


def test_a_file_of_an_older_type_is_read(table: Table, tmp_path: Path) -> None:
    """PyIceberg reads what is not as the table has it, and asks for the spec of the file's partition."""
    days = pa.array(["a", "a", "b"])
    report = check(table, tmp_path / "narrow.parquet", [("id", 1, pa.array([1, 1, 1], pa.int32())), ("day", 2, days)])
    assert (report.nulls, report.repeated, report.samples) == ({}, 1, ["id=1, day='a'"])


def test_a_key_that_the_file_lacks_is_null(table: Table, tmp_path: Path) -> None:
    report = check(table, tmp_path / "without.parquet", [("id", 1, pa.array([1, 2]))])
    assert report.nulls == {"day": 2}
