"""Spark reads what was registered."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from catalog.hive.partition_names import NULL_NAME
from tests.server.files.all_types import ALL_TYPES, of_all_types, scanned
from tests.server.files.registered import Registered
from tests.spark_fixtures import hadoop_catalog


@pytest.mark.spark
@pytest.mark.parametrize("version", [2, 3])
def test_spark_reads_and_changes_what_was_registered(tmp_path: Path, version: int) -> None:
    table = Registered(tmp_path / "wh", ALL_TYPES, "p int; city string", version=version)
    micros = table.hive_file(["1", "São Paulo/x=1 %"], of_all_types(1))
    int96 = table.hive_file(["2", NULL_NAME], of_all_types(2), use_deprecated_int96_timestamps=True)
    gone = table.hive_file(["2", NULL_NAME], of_all_types(3), name="gone")
    table.commit([micros, int96, gone])
    table.commit([], [gone.stats.location])
    name = f"reg{version}"
    spark = hadoop_catalog(name, table.warehouse)
    columns = "i, l, f, s, d, hex(b) AS b, day, t, st.b[1] AS e, m['k'] AS k, p, city"
    rows = spark.sql(f"SELECT {columns} FROM {name}.db.t WHERE i > 0 ORDER BY i")
    first, two = (row.asDict() for row in rows.collect())
    assert first | {"t": None} == {
        "i": 1, "l": 2**40 + 1, "f": 0.5, "s": "snow" * 10, "d": Decimal("0.25"), "b": "FF" * 20,
        "day": date(2024, 1, 1), "t": None, "e": 1, "k": 1, "p": 1, "city": "São Paulo/x=1 %",
    }  # fmt: skip
    assert first["t"] == two["t"]
    assert (two["p"], two["city"]) == (2, None)
    count = f"SELECT count(*) FROM {name}.db.t WHERE"
    assert spark.sql(f"{count} t = timestamp'2024-01-05 12:00:00.123456'").collect() == [(2,)]
    assert spark.sql(f"{count} d = 0.25 and l < {2**41} and s like 'snow%' and day < date'2024-01-02'").collect() == [
        (1,)
    ]
    spark.sql(f"DELETE FROM {name}.db.t WHERE city IS NULL AND i = 2")
    spark.sql(f"INSERT INTO {name}.db.t (i, p, city) VALUES (9, 2, NULL)")
    assert [row.i for row in spark.sql(f"SELECT i FROM {name}.db.t ORDER BY i NULLS FIRST").collect()] == [
        None,
        None,
        1,
        9,
    ]


@pytest.mark.spark
def test_spark_finds_columns_that_files_spell_in_another_case(tmp_path: Path) -> None:
    table = Registered(tmp_path / "wh", "userid int; name string", "p int")
    file = table.hive_file(["1"], pa.table({"userId": pa.array([7], pa.int32()), "name": ["a"]}))
    table.map_names(file.stats.aliases)
    table.commit([file])
    spark = hadoop_catalog("cased", table.warehouse)
    assert spark.sql("SELECT userid FROM cased.db.t WHERE userid = 7").collect() == [(7,)]
    assert [row["userid"] for row in scanned(table)] == [7]
