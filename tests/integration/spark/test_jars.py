"""A session with the jars that Firn fetches."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SESSION = """
import sys
from pyspark.sql import SparkSession
from firn.spark.jars import spark_conf

session = (
    SparkSession.builder.master("local[1]")
    .config(map=spark_conf())
    .config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "1g")
    .config("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.ice.type", "hadoop")
    .config("spark.sql.catalog.ice.warehouse", sys.argv[1])
    .getOrCreate()
)
session.sql("CREATE TABLE ice.db.t USING iceberg TBLPROPERTIES ('format-version'='3') AS SELECT 7 AS id")
print([tuple(row) for row in session.sql("SELECT id, _row_id FROM ice.db.t").collect()])
session.stop()
"""


@pytest.mark.spark
def test_a_session_with_these_settings_speaks_iceberg(tmp_path: Path) -> None:
    # A process of its own: jars count only when the JVM starts, and the other tests' JVM is up already.
    ran = subprocess.run(
        [sys.executable, "-c", SESSION, str(tmp_path)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert ran.stdout.splitlines()[-1:] == ["[(7, 0)]"], ran.stderr[-2000:]
