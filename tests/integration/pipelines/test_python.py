"""Python of pipelines on a real server: what a scope promises, what breaks it, and who runs code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import firn
from firn.pipelines.folder import read_folder
from firn.pipelines.put import build_put
from firn.protocol.pipelines import RunOut
from tests.keyed_tables import a_worker
from tests.spark_fixtures import RunningServer

pytestmark = pytest.mark.spark
NUMBERS = count(1)
TRIP = {"id": "bigint", "driver": "int", "day": "date", "fare": "decimal(10,2)"}
SPEC = "name: {name}\ncatalog: lake\ndatabase: mart\nstorage: file:///tmp/none\n"
IMPORTS = """from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
"""
BY_DRIVER = """
@dp.materialized_view(
    table_properties={{"firn.scope": "driver", "firn.primary-key": "driver", "firn.refresh": "{refresh}"}}
)
def {table}() -> DataFrame:
    {body}
"""
SUM = 'return spark.table("{trip}").groupBy("driver").agg(F.sum("fare").alias("fares"), F.count("*").alias("trips"))'


class Project:
    """A folder on the server, with trips of its own, and an optimizer that runs code unless told otherwise."""

    def __init__(self, server: RunningServer, folder: Path) -> None:
        self.server, self.folder, self.number = server, folder, next(NUMBERS)
        self.client = firn.connect(server.url, catalog="lake")
        self.name = f"code_{self.number}"
        self.trip = f"raw.code_trip_{self.number}"
        (folder / "transformations").mkdir()
        (folder / "spark-pipeline.yml").write_text(SPEC.format(name=self.name))
        self.sql(f"CREATE TABLE lake.{self.trip} (id BIGINT, driver INT, day DATE, fare DECIMAL(10,2)) USING iceberg")
        self.add(0, 12)

    def sql(self, text: str) -> None:
        self.server.spark.sql(text)

    def add(self, start: int, end: int) -> None:
        self.sql(
            f"INSERT INTO lake.{self.trip} SELECT id, cast(id % 4 AS INT), date_add(DATE'2026-01-01', cast(id % 3 AS "
            f"INT)), 2.5 FROM range({start}, {end})"
        )

    def table(self, name: str) -> str:
        return f"{name}_{self.number}"

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)

    def put(self, **options: Any) -> dict[str, str]:
        pipeline = read_folder(self.folder, namespace="mart")
        put = build_put(pipeline, {self.trip: TRIP}.get, catalog="lake", **options)
        return {change.table: str(change.change) for change in self.client.pipelines[self.name].put(put).tables}

    def run(self, name: str, *, allow_code: bool = True, full: bool = False) -> RunOut:
        handle = self.client.pipelines[self.name]
        run_id = handle.run(f"mart.{self.table(name)}", full=full).id
        self.work(allow_code=allow_code)
        return handle.get_run(run_id)

    def work(self, *, allow_code: bool = True) -> bool:
        worker = replace(a_worker(self.server.url), allow_code=allow_code)
        optimizer_id = worker.api.register(**worker.about).id
        has_worked = worker.work_once(optimizer_id, wait_seconds=1)
        worker.api.unregister(optimizer_id)
        return has_worked

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        return sorted(self.server.rows(f"SELECT * FROM lake.mart.{self.table(name)}"))

    def change(self) -> None:
        """Late rows of one driver, a driver that is gone, and one that moves."""
        self.add(100, 101)
        self.sql(f"DELETE FROM lake.{self.trip} WHERE driver = 1")
        self.sql(f"UPDATE lake.{self.trip} SET driver = 7 WHERE id = 2")


@pytest.fixture
def project(server: RunningServer, tmp_path: Path) -> Iterator[Project]:
    project = Project(server, tmp_path)
    yield project
    with_pipeline = project.client.pipelines[project.name]
    for run in with_pipeline.runs():
        if run.status in ("pending", "running"):
            project.client.jobs.cancel(run.job_id)


def ok(run: RunOut) -> dict[str, Any]:
    assert run.status == "succeeded", run.error
    return run.result


def test_a_promised_scope_computes_the_affected_values_alone(project: Project) -> None:
    view = IMPORTS + BY_DRIVER.format(
        table=project.table("fares"), refresh="incremental", body=SUM.format(trip=project.trip)
    )
    project.write("transformations/fares.py", view)
    assert project.put() == {f"mart.{project.table('fares')}": "new"}
    assert ok(project.run("fares"))["mode"] == "full"
    project.change()
    result = ok(project.run("fares"))
    assert (result["mode"], result["keys"], result["deleted"]) == ("incremental", 4, 1)
    incremental = project.rows("fares")
    assert incremental == project.server.rows(
        f"SELECT driver, sum(fare) fares, count(*) trips FROM lake.{project.trip} GROUP BY driver ORDER BY driver"
    )
    full = ok(project.run("fares", full=True))
    assert (full["written"], full["deleted"], project.rows("fares")) == (0, 0, incremental)
    assert ok(project.run("fares"))["mode"] == "nothing"
    # Comments and layout are no change; another function is.
    project.write("transformations/fares.py", f"# about fares\n{view}")
    assert set(project.put(dry_run=True).values()) == {"unchanged"}
    project.write("transformations/fares.py", view.replace("count", "max"))
    assert set(project.put(dry_run=True).values()) == {"rebuild"}
    # A server's queue keeps code from optimizers that do not run it.
    project.add(200, 201)
    assert project.run("fares", allow_code=False).status == "pending"
    assert project.work()


def test_a_broken_promise_is_noticed(project: Project) -> None:
    """The rank of a driver depends on the other drivers, so changes of one move the others."""
    body = (
        "from pyspark.sql import Window\n    "
        f'trips = spark.table("{project.trip}").groupBy("driver").agg(F.sum("fare").alias("fares"))\n    '
        'return trips.select("driver", F.rank().over(Window.orderBy("fares", "driver")).alias("place"))'
    )
    project.write(
        "transformations/r.py", IMPORTS + BY_DRIVER.format(table=project.table("r"), refresh="incremental", body=body)
    )
    project.write("firn-pipeline.yml", f"tables: {{{project.table('r')}: {{validate: [{{same_as_full: 100 %}}]}}}}")
    project.put()
    assert ok(project.run("r"))["mode"] == "full"
    before = project.rows("r")
    project.add(100, 101)
    failed = project.run("r")
    assert failed.status == "failed"
    assert "audit failed, and nothing was committed: same_as_full" in (failed.error or "")
    assert project.rows("r") == before
    moved = body.replace(
        '"driver", F.rank', '(F.col("driver") + F.count("*").over(Window.partitionBy())).alias("driver"), F.rank'
    )
    project.write(
        "transformations/r.py", IMPORTS + BY_DRIVER.format(table=project.table("r"), refresh="incremental", body=moved)
    )
    project.put(rebuild=True)
    ok(project.run("r"))
    project.add(101, 102)
    assert "breaks its promise: from the rows of some values of driver" in (project.run("r").error or "")


TRANSFORMS = """
from pyspark.sql import functions as F, Window


def by_row(spark, df, context):
    return df.withColumn("high", F.col("fare") > 2)


def by_key(spark, df, context):
    context.log(f"{context.mode}: {', '.join(context.scope)}")
    newest = Window.partitionBy("driver").orderBy(F.col("id").desc())
    return df.withColumn("n", F.row_number().over(newest)).where("n = 1").drop("n")


def by_all(spark, df, context):
    return df.withColumn("share", F.round(F.col("fare") / F.sum("fare").over(Window.partitionBy()), 4))
"""


@pytest.mark.parametrize(
    ("scopes", "key", "mode"),
    [(["row"], "id", "incremental"), (["row", "key"], "driver", "incremental"), (["key", "all"], "driver", "full")],
)
def test_transforms_compute_what_their_scope_says(project: Project, scopes: list[str], key: str, mode: str) -> None:
    name = project.table("t")
    project.write("transforms/steps.py", TRANSFORMS)
    project.write(
        "transformations/t.sql", f"CREATE MATERIALIZED VIEW {name} AS SELECT id, driver, fare FROM {project.trip}"
    )
    chain = ", ".join(f"{{python: 'transforms.steps:by_{scope}', scope: {scope}}}" for scope in scopes)
    project.write(
        "firn-pipeline.yml", f"tables: {{{name}: {{key: {key}, refresh: incremental, transforms: [{chain}]}}}}"
    )
    project.put()
    ok(project.run("t"))
    project.change()
    assert ok(project.run("t"))["mode"] == mode
    kept = project.rows("t")
    full = ok(project.run("t", full=True))
    assert (full["written"], full["deleted"], project.rows("t")) == (0, 0, kept)
    assert len(kept) == (10 if key == "id" else 4)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return 1 / 0", "transformations/b.py, line 9: b_NUMBER() raised ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "transformations/b.py, line 9: b_NUMBER() raised SystemExit: 3"),
        ("return None", "transformations/b.py: b_NUMBER() returned NoneType, no DataFrame"),
        ('return spark.range(3).select("id", F.col("id"))', "returned two columns named id"),
        (
            'return getattr(spark, "table")("raw.other")',
            "raw.other is not among the tables that this function was seen",
        ),
        ('return spark.read.parquet("/etc/passwd")', "spark.read.parquet does not read a table of the run"),
        ('return spark.range(3).select("no_column")', "transformations/b.py, line 9: b_NUMBER(): "),
        ("return spark.stop()", "a function of a pipeline must not stop Spark"),
        ("return spark.readStream", "Python reads no streams in Firn; write CREATE STREAMING TABLE"),
    ],
)
def test_code_that_goes_wrong_says_where(project: Project, body: str, words: str) -> None:
    project.write(
        "transformations/b.py", f"{IMPORTS}\n@dp.materialized_view\ndef {project.table('b')}():\n    {body}\n"
    )
    project.put()
    run = project.run("b")
    assert run.status == "failed"
    assert words.replace("NUMBER", str(project.number)) in (run.error or "")


def test_other_columns_and_lost_keys_are_refused(project: Project) -> None:
    name = project.table("t")
    project.write(
        "transformations/t.sql", f"CREATE MATERIALIZED VIEW {name} AS SELECT id, driver, fare FROM {project.trip}"
    )
    project.write("transforms/x.py", "def f(spark, df, context):\n    return df\n")
    project.write(
        "firn-pipeline.yml", f"tables: {{{name}: {{key: id, transforms: [{{python: 'transforms.x:f', scope: row}}]}}}}"
    )
    project.put()
    ok(project.run("t"))
    project.write("transforms/x.py", "def f(spark, df, context):\n    return df.drop('fare')\n")
    project.put(rebuild=True)
    assert "the query gives id, driver: ALTER TABLE … DROP COLUMN fare" in (project.run("t").error or "")


def test_validators_in_python(project: Project) -> None:
    name = project.table("v")
    project.write("transformations/v.sql", f"CREATE MATERIALIZED VIEW {name} AS SELECT id, fare FROM {project.trip}")
    checks = """
def high(spark, audited, changed):
    return changed.where("fare > 100")

def words(spark, audited, changed):
    return [f"{audited.count()} rows"] if audited.count() > 12 else []

def wrong(spark, audited, changed):
    return 3
"""
    project.write("checks.py", checks)
    settings = (
        "tables: {NAME: {key: id, validate: [{python: 'checks:high'}, {python: 'checks:words', severity: warn}]}}"
    )
    project.write("firn-pipeline.yml", settings.replace("NAME", name))
    project.put()
    assert [entry["passed"] for entry in ok(project.run("v"))["validators"]] == [True, True]
    project.add(20, 21)
    (_, validator) = ok(project.run("v"))["validators"]
    assert (validator["name"], validator["examples"]) == ("python(words)", [{"violation": "13 rows"}])
    project.sql(f"INSERT INTO lake.{project.trip} VALUES (900, 1, DATE'2026-01-01', 999)")
    assert "audit failed, and nothing was committed: python(high) (1 row)" in (project.run("v").error or "")
    project.write("firn-pipeline.yml", settings.replace("NAME", name).replace("words", "wrong"))
    project.put()
    assert "wrong() of checks.py returned int" in (project.run("v").error or "")
