"""What reading Hive's files in other formats takes, without Spark; with it: tests/integration/hive/test_formats.py."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from firn.protocol.tasks.sync import HiveColumn
from optimizer.avro_rows import converter
from optimizer.errors import Refused
from optimizer.hive_rows import check_zone
from optimizer.spark import JobSession

INNER = StructType([StructField("innerName", IntegerType()), StructField("gone", StringType())])
ROW = StructType(
    [
        StructField("id", LongType()),
        StructField("d", DecimalType(9, 2)),
        StructField("many", ArrayType(INNER)),
        StructField("pairs", MapType(StringType(), INNER)),
    ]
)


def test_avro_rows_are_told_in_the_columns_that_are_asked_for() -> None:
    convert = converter(ROW)
    many, pairs = [{"innername": 1}, None], {"k": {"innerName": 2}}
    row = {"id": 1, "other": 2, "d": Decimal("1.25"), "many": many, "pairs": pairs}
    assert convert(row) == {
        "id": 1,
        "d": Decimal("1.25"),
        "many": [{"innerName": 1, "gone": None}, None],
        "pairs": [("k", {"innerName": 2, "gone": None})],
    }
    assert convert({"ID": 1}) == {"id": None, "d": None, "many": None, "pairs": None}  # as Hive reads it


def in_zone(zone: str) -> JobSession:
    java_zone = SimpleNamespace(normalized=lambda: SimpleNamespace(getId=lambda: zone))
    zones = SimpleNamespace(systemDefault=lambda: java_zone)
    jvm = SimpleNamespace(java=SimpleNamespace(time=SimpleNamespace(ZoneId=zones)))
    return cast("JobSession", SimpleNamespace(jvm=jvm))


@pytest.mark.parametrize("kind", ["timestamp_ntz", "array<struct<at:timestamp_ntz>>"])
def test_an_optimizer_elsewhere_than_in_utc_leaves_the_times_in_orc_files_alone(kind: str) -> None:
    timed, plain = HiveColumn(hive="at", type=kind, name="at"), HiveColumn(hive="id", type="bigint", name="id")
    for zone in ("Z", "UTC"):
        check_zone(in_zone(zone), [timed])
    check_zone(in_zone("America/New_York"), [plain])
    with pytest.raises(Refused, match="time zone is America/New_York"):
        check_zone(in_zone("America/New_York"), [plain, timed])
