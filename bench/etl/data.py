"""Trips and drivers, and the rounds of changes to them: late tips, new days, deletes, and drivers who move.

The shape follows what Uber has published about incremental ETL: a fact by day and bucket whose rows change for days
after the trip, a few of them for months, and a dimension of which a hundredth changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

CATALOG, PIPELINE = "lake", "etl"
NAMESPACE = f"{CATALOG}.etl"
TRIP, DRIVER = f"{NAMESPACE}.trip", f"{NAMESPACE}.driver"
INPUTS = {
    "etl.trip": {
        "id": "bigint",
        "driver": "int",
        "day": "int",
        "fare": "decimal(10,2)",
        "tip": "decimal(10,2)",
        "status": "string",
        "note": "string",
        "round": "int",
    },
    "etl.driver": {"driver": "int", "city": "int", "name": "string"},
}
MODES = ", ".join(f"'write.{verb}.mode' = 'merge-on-read'" for verb in ("delete", "update", "merge"))
COLUMNS = "driver INT, day INT, city INT, trips BIGINT, fares DECIMAL(20,2), tips DECIMAL(20,2), best DECIMAL(10,2)"
QUERY = """SELECT t.driver, t.day, d.city, count(*) AS trips, sum(t.fare) AS fares, sum(t.tip) AS tips,
  max(t.fare) AS best
FROM {trip} t JOIN {driver} d ON t.driver = d.driver WHERE t.status <> 'canceled' GROUP BY t.driver, t.day, d.city"""
FRESH = QUERY.replace(
    "WHERE", "LEFT SEMI JOIN changed c ON c.driver = t.driver AND c.day = t.day WHERE t.day IN ({days}) AND"
)
"""The groups of the view `changed`, which are of these days."""
FOLDER = {
    "spark-pipeline.yml": f"name: {PIPELINE}\ncatalog: {CATALOG}\ndatabase: etl\n"
    "libraries:\n  - glob: {include: transformations/**}\n",
    "transformations/firn.sql": "CREATE MATERIALIZED VIEW firn PARTITIONED BY (day)\n"
    "TBLPROPERTIES ('firn.primary-key' = 'driver, day', 'firn.refresh' = 'incremental')\n"
    f"AS {QUERY.format(trip='etl.trip', driver='etl.driver')};\n",
}
TAIL_DAYS = 30
"""Rows that are older change seldom. A look-back of so many days does not see them."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much data there is."""

    trips: int
    days: int
    buckets: int
    drivers: int

    @property
    def per_day(self) -> int:
        """Trips of one day."""
        return self.trips // self.days


@dataclass(frozen=True, slots=True)
class Round:
    """The statements of one round of changes, after which every system brings its table up to date."""

    name: str
    statements: tuple[str, ...]


def write_folder(folder: Path) -> None:
    """Write the folder of the pipeline."""
    for path, text in FOLDER.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def create_inputs(spark: SparkSession, size: Size) -> None:
    """Create both tables and their first rows."""
    parts = {"etl.trip": f"PARTITIONED BY (day, bucket({size.buckets}, driver)) ", "etl.driver": ""}
    for name, columns in INPUTS.items():
        listed = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        properties = f"TBLPROPERTIES ('format-version' = '3', {MODES})"
        spark.sql(f"CREATE TABLE {CATALOG}.{name} ({listed}) USING iceberg {parts[name]}{properties}")
    spark.sql(f"INSERT INTO {DRIVER} {select_drivers(size)}")
    spark.sql(f"INSERT INTO {TRIP} {select_trips(size, 0, size.per_day * size.days, 0)}")


def select_drivers(size: Size) -> str:
    """The query of all drivers."""
    return f"SELECT cast(id AS INT), cast(id % 600 AS INT), concat('d', id) FROM range({size.drivers})"


def select_trips(size: Size, first: int, last: int, number: int) -> str:
    """The query of the trips with these ids. A few drivers have most of them."""
    share = "pmod(hash(id), 1000003) / 1000003.0"
    return (
        f"SELECT id, cast(pow({share}, 1.6) * {size.drivers} AS INT), cast(id DIV {size.per_day} AS INT), "
        "cast(5 + pmod(hash(id, 1), 4000) / 100.0 AS DECIMAL(10,2)), cast(0 AS DECIMAL(10,2)), "
        f"if(id % 50 = 0, 'canceled', 'done'), concat('note ', hash(id, 2)), {number} FROM range({first}, {last})"
    )


def list_rounds(size: Size) -> list[Round]:
    """The rounds, in order. The first warms up every system, and does not count."""
    rounds = [_late_tips("warm up", size, 1, 0.02)]
    for number, share in enumerate((0.04, 0.12, 0.38), 2):
        rounds.append(_late_tips(f"late tips, {share:.0%} of the files", size, number, share))
    new = size.per_day * size.days
    rounds.append(Round("new day", (f"INSERT INTO {TRIP} {select_trips(size, new, new + size.per_day, 5)}",)))
    days = _spread_days(size, 0.06)
    rounds.append(
        Round(
            "deletes and cancels",
            (
                f"DELETE FROM {TRIP} WHERE day IN ({days}) AND id % 997 = 3",
                f"UPDATE {TRIP} SET status = 'canceled', round = 6 WHERE day IN ({days}) AND id % 997 = 5",
            ),
        )
    )
    rounds.append(Round("1 % of drivers move", (f"UPDATE {DRIVER} SET city = city + 1000 WHERE driver % 100 = 7",)))
    old = ", ".join(str(day) for day in range(0, max(size.days - TAIL_DAYS, 1), 7))
    tail = f"UPDATE {TRIP} SET tip = tip + 1, round = 8 WHERE day IN ({old}) AND id % 1999 = 1"
    rounds.append(Round("a tail of months", (tail,)))
    return rounds


def _late_tips(name: str, size: Size, number: int, share: float) -> Round:
    """Tips that came late, in all buckets of a share of the days: a thousandth of their rows."""
    days = _spread_days(size, share)
    where = f"day IN ({days}) AND pmod(hash(id, {number}), 1000) = 1"
    return Round(name, (f"UPDATE {TRIP} SET tip = tip + 1.5, round = {number} WHERE {where}",))


def _spread_days(size: Size, share: float) -> str:
    """The newest days, and as many older ones up to the tail, each third day from the end."""
    count = max(round(share * size.days), 1)
    newest = range(size.days - 1, -1, -1)
    chosen = [day for place, day in enumerate(newest) if place < count / 2 or place % 3 == 0][:count]
    return ", ".join(map(str, chosen))
