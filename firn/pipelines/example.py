"""The folder that `firn pipeline init` makes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from firn.errors import Invalid
from firn.protocol.pipeline_schema import FIRN_PIPELINE_SCHEMA

SCHEMA_FILE: Final = "firn-pipeline.schema.json"
SPARK_FILE: Final = "spark-pipeline.yml"
FILES: Final = {
    SPARK_FILE: """\
name: orders
catalog: lake
database: mart
libraries:
  - glob: {include: transformations/**}
""",
    "firn-pipeline.yml": f"""\
# yaml-language-server: $schema={SCHEMA_FILE}
version: 1
tables:
  city_daily: {{key: [city, day]}}
sources:                  # the columns of the inputs; `firn pipeline plan --server URL` reads them from the server
  raw.trip:
    columns: {{driver: bigint, day: date, status: string, fare: "decimal(10,2)"}}
  dim.driver:
    columns: {{driver: bigint, city: int}}
""",
    "transformations/driver_daily.sql": """\
CREATE MATERIALIZED VIEW driver_daily
TBLPROPERTIES ('firn.primary-key' = 'driver, day', 'firn.refresh' = 'strict')
AS SELECT t.driver, t.day, d.city, count(*) AS trips, sum(t.fare) AS fares
   FROM raw.trip t JOIN dim.driver d ON t.driver = d.driver
   WHERE t.status <> 'canceled'
   GROUP BY t.driver, t.day, d.city;
""",
    "transformations/city_daily.sql": """\
CREATE MATERIALIZED VIEW city_daily
AS SELECT d.city, t.day, count(*) AS trips
   FROM raw.trip t JOIN dim.driver d ON t.driver = d.driver
   GROUP BY d.city, t.day;
""",
    "transformations/city_rank.sql": """\
CREATE MATERIALIZED VIEW city_rank
AS SELECT city, day, trips,
          rank() OVER (ORDER BY trips DESC) AS place
   FROM city_daily;
""",
    "tests/late_trip.yml": """\
name: a trip that comes months later
given:
  raw.trip:
    - {driver: 1, day: 2026-01-05, status: paid, fare: 10.00}
    - {driver: 1, day: 2026-01-05, status: canceled, fare: 4.00}
  dim.driver:
    - {driver: 1, city: 7}
change:
  raw.trip:
    insert:
      - {driver: 1, day: 2026-01-05, status: paid, fare: 2.50}
expect:
  driver_daily:
    - {driver: 1, day: 2026-01-05, city: 7, trips: 2, fares: 12.50}
  city_daily:
    - {city: 7, day: 2026-01-05, trips: 3}
""",
}


_NAME: Final = re.compile(r"[A-Za-z][\w.+-]{0,127}", re.ASCII)
"""A name of a pipeline that YAML also reads as a text."""


def name_after(folder: Path) -> str:
    """The name of the pipeline in a new folder: that of the folder, if a pipeline may have it."""
    name = folder.resolve().name
    return name if _NAME.fullmatch(name) and name.lower() not in _NO_TEXTS else "orders"


_NO_TEXTS: Final = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


def write_example(folder: Path) -> list[Path]:
    """Write the example into a folder that is empty or does not exist. Raises Invalid for any other."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Invalid(f"{folder} is not empty", hint="name a new folder")
    paths = []
    schema = json.dumps(FIRN_PIPELINE_SCHEMA, indent=2) + "\n"
    spark = FILES[SPARK_FILE].replace("name: orders", f"name: {name_after(folder)}", 1)
    for name, text in (FILES | {SPARK_FILE: spark, SCHEMA_FILE: schema}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths
