"""A Spark 3.5 with Hudi, in a process of its own: Hudi has no bundle for the Spark of this environment.

`python -m bench.hudi_spark` fetches its jars and prints where they are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from firn.embedded.jars import fetch_jar_set
from tests.integration.engines import child
from tests.integration.engines.spark import PYSPARK_3_5, SparkBeside
from tests.integration.fetching import report

JARS = Path(__file__).with_name("hudi.xml")
REPOSITORY = Path(__file__).parents[1]


@contextmanager
def hudi_spark(log: Path, memory: str, more: Mapping[str, str] | None = None) -> Iterator[SparkBeside]:
    """Start it with these settings, and end it. The code that it runs can import the modules of this repository."""
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.jars": ",".join(map(str, sorted(fetch_jar_set(JARS).glob("*.jar")))),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(log.with_suffix(".warehouse")),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        **(more or {}),
    }
    paths = {"PYTHONPATH": f"{PYSPARK_3_5}:{REPOSITORY}", "PYSPARK_PYTHON": sys.executable}
    with (
        log.open("w", encoding="utf-8") as output,
        subprocess.Popen(
            [sys.executable, str(child.__file__), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            env={**os.environ, **paths},
        ) as process,
    ):
        try:
            yield SparkBeside(process)
        finally:
            process.terminate()
            process.wait(60)


if __name__ == "__main__":
    sys.exit(report(partial(fetch_jar_set, JARS)))
