"""Python files of a folder: what Firn reads from their text, and one clear message for what it cannot know."""

from __future__ import annotations

from pathlib import Path

import pytest

from firn.errors import FirnError
from firn.pipelines import build_put, explain_table, plan_pipeline, read_folder
from firn.pipelines.definition import Pipeline
from firn.protocol.pipelines import PutPipeline

COLUMNS = {"raw.trip": {"driver": "bigint", "day": "date", "fare": "decimal(10,2)"}, "dim.driver": {"driver": "bigint"}}
SPEC = "name: p\ncatalog: lake\ndatabase: mart\n"
HEAD = "from pyspark import pipelines as dp\nspark = None\n"
TABLE = HEAD + '@dp.materialized_view\ndef t():\n    return spark.table("raw.trip")\n'


def read(folder: Path, files: dict[str, str]) -> Pipeline:
    for name, text in {"spark-pipeline.yml": SPEC, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read_folder(folder)


def put(folder: Path, files: dict[str, str]) -> PutPipeline:
    return build_put(read(folder, files), COLUMNS.get, catalog="lake")


def find_problem(folder: Path, files: dict[str, str]) -> str:
    pipeline = read(folder, files)
    planned = [table.problem for table in plan_pipeline(pipeline, COLUMNS.get) if table.problem is not None]
    (problem,) = [*pipeline.problems, *planned]
    return f"{problem.message}; {problem.hint}"


def test_the_project_of_spark_needs_no_change(tmp_path: Path) -> None:
    """The text is that of `spark-pipelines init`; tests/integration/pipelines/test_spark_projects.py runs it."""
    text = (
        "from pyspark import pipelines as dp\nfrom pyspark.sql import DataFrame, SparkSession\n\n"
        "spark = SparkSession.active()\n\n"
        "@dp.materialized_view\ndef numbers() -> DataFrame:\n    return spark.range(10)\n"
    )
    sql = "CREATE MATERIALIZED VIEW even AS SELECT id FROM numbers WHERE id % 2 = 0"
    sent = put(tmp_path, {"transformations/a.py": text, "transformations/b.sql": sql})
    numbers, even = sent.tables
    assert (
        numbers.inputs,
        numbers.incremental,
        numbers.code.function.name if numbers.code and numbers.code.function else "",
    ) == ([], False, "numbers")
    assert (even.inputs, even.incremental, even.code) == (["mart.numbers"], False, None)
    assert even.reasons == []  # each run plans it, and may be incremental
    assert [file.path for file in sent.files] == ["spark-pipeline.yml", "transformations/a.py", "transformations/b.sql"]


def test_what_code_reads_is_found_through_functions_and_views(tmp_path: Path) -> None:
    python = HEAD + (
        "import pyspark.pipelines\n"
        "def helper():\n    return spark.sql('SELECT * FROM dim.driver JOIN paid USING (driver)')\n"
        "@pyspark.pipelines.materialized_view(name='lake.mart.t', schema='driver BIGINT, n INT',\n"
        "  table_properties={'firn.scope': 'driver', 'firn.primary-key': 'driver'}, partition_cols=['driver'])\n"
        "def anything():\n    return helper().join(spark.read.table('high'))\n"
        "@dp.temporary_view\ndef high():\n    return spark.read.table('raw.trip')\n"
    )
    sql = "CREATE TEMPORARY VIEW paid AS SELECT driver FROM raw.trip; CREATE MATERIALIZED VIEW u AS SELECT n FROM t"
    (table, below) = put(tmp_path, {"transformations/a.py": python, "transformations/b.sql": sql}).tables
    assert (table.name, sorted(table.inputs), table.key, table.scope) == (
        "mart.t",
        ["dim.driver", "raw.trip"],
        ["driver"],
        ["driver"],
    )
    assert table.code is not None
    assert sorted((view.name, view.query is None) for view in table.code.views) == [("high", True), ("paid", False)]
    assert (below.incremental, below.scope) == (True, ["n"])


def test_comments_change_no_fingerprint_and_imported_files_do(tmp_path: Path) -> None:
    python = TABLE.replace("spark = None", "from lib.more import f")
    files = {"transformations/a.py": python, "lib/more.py": "def f():\n    return 1\n", "lib/other.py": "x"}
    (first,) = put(tmp_path, files).tables
    assert first.code is not None
    assert first.code.modules == ["lib/more.py", "transformations/a.py"]
    (same,) = put(tmp_path, {**files, "transformations/a.py": f"# words\n\n{python}"}).tables
    (other,) = put(tmp_path, {**files, "lib/more.py": "def f():\n    return 2\n"}).tables
    assert first.fingerprint == same.fingerprint != other.fingerprint


def test_a_plan_says_who_computes_what(tmp_path: Path) -> None:
    chain = "{python: 'lib.more:f', scope: key}, {python: 'lib.more:f', scope: row}"
    settings = f"tables: {{t: {{key: driver, transforms: [{chain}]}}}}"
    query = "SELECT driver, sum(fare) AS s FROM raw.trip GROUP BY driver"
    files = {
        "transformations/a.sql": f"CREATE MATERIALIZED VIEW t AS {query}",
        "lib/more.py": "def f(spark, df, context):\n    return df\n",
        "firn-pipeline.yml": settings,
    }
    (table,) = plan_pipeline(read(tmp_path, files), COLUMNS.get)
    assert explain_table(table)[:3] == [
        "mart.t  incremental, scope driver (its key)",
        "  then f of lib/more.py, scope key",
        "  then f of lib/more.py, scope row",
    ]
    (full,) = plan_pipeline(read(tmp_path, {**files, "firn-pipeline.yml": settings.replace("row", "all")}), COLUMNS.get)
    assert "the transform f has scope: all" in explain_table(full)[3]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def f(:\n", "transformations/a.py, line 1, column 7: this is no Python: invalid syntax"),
        ("x = '\0'", "this is no Python: source code string cannot contain null bytes"),
        (f"x = {'(' * 500}", "this is no Python: "),
        (f"x = {'-' * 100_000}1", "this is no Python: "),
        (HEAD + "for n in 'ab':\n  @dp.materialized_view(name=n)\n  def f(): ...\n", "line 4: Firn reads definitions"),
        (HEAD + "def g():\n  dp.materialized_view(f)\n", "line 4: Firn reads definitions without running them"),
        (HEAD + "@dp.table\ndef f(): ...\n", "line 3: Firn reads no streaming tables from Python; write CREATE"),
        (HEAD + "dp.create_sink('a', 'b')\n", "line 3: Firn has no sinks"),
        (HEAD + "@dp.materialized_view(name='a' + 'b')\ndef f(): ...\n", "line 3, column 28: name is no literal"),
        (HEAD + "@dp.materialized_view(nme='a')\ndef f(): ...\n", "materialized_view has no argument nme; it has"),
        (HEAD + "@dp.materialized_view(**x)\ndef f(): ...\n", "materialized_view has no argument **"),
        (HEAD + "@dp.materialized_view(schema='a b c')\ndef f(): ...\n", "schema 'a b c' cannot be read"),
        (HEAD + "@dp.materialized_view(spark_conf={'a': 'b'})\ndef f(): ...\n", "Firn sets no spark_conf for a table"),
        (HEAD + "@dp.materialized_view\ndef f(x): ...\n", "line 4: f has arguments, and nobody gives them"),
        (HEAD + "@dp.materialized_view\ndef f():\n  return spark.table(x)\n", "line 5, column 10: f reads a table"),
        (HEAD + "@dp.materialized_view\ndef f():\n  return spark.table('f')\n", "column 10: mart.f reads itself"),
        (HEAD + "@dp.materialized_view\ndef f():\n  return spark.sql('DROP TABLE a')\n", "DROP stands where a query"),
        (HEAD + "@dp.materialized_view(table_properties={'firn.refresh': 'strict'})\ndef f(): return spark.range(1)\n",
         "mart.f is strict, and must be computed in full: Python computes it, and promises no scope"),
        (HEAD + "@dp.materialized_view(schema='a INT', table_properties={'firn.scope': 'b'})\ndef f(): ...\n",
         "the column b of its scope is not among those that it declares"),
        (HEAD + "@dp.temporary_view(name='a.b')\ndef f(): ...\n", "a temporary view has no namespace"),
    ],
)  # fmt: skip
def test_what_cannot_be_known(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in find_problem(tmp_path, {"transformations/a.py": text})


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("transforms: [{python: 'lib.f:g', scope: row}]", "the folder has no file lib/f.py"),
        ("transforms: [{python: 'lib.more:g', scope: row}]", "lib/more.py has no function g at its top level"),
        ("transforms: [{python: 'lib.more:f', scope: key}]", "a transform with scope: key needs a table with a key"),
        ("mode: append, streams: [raw.trip], transforms: [{python: 'lib.more:f', scope: all}]", "f has the scope all"),
        ("scope: [driver]", "scope and reads are for tables that Python computes"),
        ("validate: [{python: 'lib.more:g'}]", "lib/more.py has no function g"),
        ("validate: [{python: 'lib.more:f', severity: drop}]", "python cannot drop rows"),
        (
            "mode: append, streams: [raw.trip], validate: [{same_as_full: 5 %}]",
            "the rows of mode: append are not those",
        ),
    ],
)
def test_settings_that_do_not_fit(tmp_path: Path, settings: str, problem: str) -> None:
    files = {
        "transformations/a.sql": "CREATE MATERIALIZED VIEW t AS SELECT driver FROM raw.trip",
        "lib/more.py": "def f(spark, df, context):\n    return df\n",
        "firn-pipeline.yml": f"tables: {{t: {{{settings}}}}}",
    }
    assert problem in find_problem(tmp_path, files)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("transforms: [{python: '../x:f', scope: row}]", "'../x:f' names no function"),
        ("transforms: [{python: 'lib.more:f'}]", "a transform needs scope"),
        ("transforms: [{python: 'lib.more:f', scope: rows}]", "scope is 'rows', not one of row, key, all"),
        ("validate: [{same_as_full: 101 %}]", "'101 %' is no part of the rows"),
        ("validate: [{same_as_full: 0 %}]", "'0 %' is no part of the rows"),
    ],
)
def test_settings_that_cannot_be_read(tmp_path: Path, settings: str, problem: str) -> None:
    with pytest.raises(FirnError, match=problem.replace(".", r"\.")):
        read(tmp_path, {"firn-pipeline.yml": f"tables: {{t: {{{settings}}}}}", "transformations/a.sql": ""})
