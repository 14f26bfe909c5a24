"""`firn pipeline test --compare`: the rows that a table of a folder would have, and those of an existing table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import firn.spark
from firn import pipelines
from firn.cli.context import CliContext
from firn.cli.show import Show
from firn.cli.spark_session import open_session
from firn.embedded.pyspark_jars import require_pyspark
from firn.errors import FirnError, Invalid, NotFound
from firn.names import split_name
from firn.protocol.names import join_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from firn.pipelines.definition import Pipeline
    from firn.spark.table_comparison import Comparison

CompareOption = Annotated[
    str | None,
    typer.Option(
        "--compare", metavar="OLD_TABLE", help="Compare with this table of the server, instead of running tests."
    ),
]
TableOption = Annotated[
    str | None,
    typer.Option("--table", metavar="TABLE", help="With --compare: the table of the folder, if it has several."),
]
ToleranceOption = Annotated[
    float, typer.Option(min=0, max=1, help="With --compare: FLOAT and DOUBLE may differ by this part of their value.")
]
_MEANINGS = {
    "equal": "",
    "different": "the key is in both, and other columns differ",
    "missing": "only the old table has them",
    "additional": "only the pipeline's table would have them",
}


@dataclass(frozen=True)
class Request:
    """What to compare: `table` is None for the only table of the folder."""

    old: str
    table: str | None
    tolerance: float


def compare(ctx: CliContext, folder: Path, request: Request) -> None:
    """Compute a table of the folder from the server's tables, and compare it. Exits with 1 if rows differ."""
    pipeline = pipelines.read_folder(folder)
    if pipeline.problems:
        raise pipeline.problems[0]
    name = _choose_table(pipeline, folder, request.table)
    catalog = pipeline.catalog or ctx.catalog
    old = _qualify(request.old, catalog)
    ctx.client.tables[old].show()  # an unknown name is an error before Spark starts
    require_pyspark("firn pipeline test")
    result = _compare_in_spark(ctx, pipeline, catalog, name, old, request)
    ctx.show.emit(_write(name, old, result), lambda: show_comparison(ctx.show, name, old, result))
    if not result.is_equal:
        raise typer.Exit(1)


def _choose_table(pipeline: Pipeline, folder: Path, table: str | None) -> str:
    names = list(pipeline.definitions)
    if table is None:
        if len(names) != 1:
            raise Invalid(f"{folder} defines {len(names)} tables", hint=f"say --table {names[0] if names else 'TABLE'}")
        return names[0]
    full_name = next((name for name in names if name == table or name.endswith(f".{table}")), None)
    if full_name is None:
        raise NotFound(f"{folder} defines no table {table}", hint=f"it defines {', '.join(names)}")
    return full_name


def _qualify(name: str, catalog: str) -> str:
    parts = split_name(name)
    return join_name([catalog, *parts]) if len(parts) < 3 else name


def _compare_in_spark(
    ctx: CliContext, pipeline: Pipeline, catalog: str, name: str, old: str, request: Request
) -> Comparison:
    with _open_spark(ctx, catalog) as spark:
        options = firn.spark.ComparisonOptions(key=pipeline.definitions[name].key, tolerance=request.tolerance)
        try:
            with ctx.show.progress(f"comparing {name} with {old}"):
                new = firn.spark.compute_table(spark, catalog, pipeline.definitions, name)
                return firn.spark.compare_tables(new, firn.spark.read(old, spark), options)
        except FirnError:
            raise
        except Exception as error:  # Java throws many types of errors; the user gets one line of them
            raise FirnError(
                firn.spark.reason(error), hint="try the query in `firn sql --engine local-spark`"
            ) from error


@contextmanager
def _open_spark(ctx: CliContext, catalog: str) -> Iterator[SparkSession]:
    """A Spark on the server's catalogs, or the running one of this process, which goes on afterwards."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 -- an extra

    active = SparkSession.getActiveSession()
    if active is not None:
        session = active.newSession()
        for key, value in firn.spark.catalog_conf(ctx.client, catalog).items():
            session.conf.set(key, value)
        yield session
        return
    with open_session(ctx, master="local[*]", memory="2g") as spark:
        yield spark


def show_comparison(show: Show, name: str, old: str, result: Comparison) -> None:
    """Print the counts of rows, and the examples."""
    by = f"by {', '.join(result.key)}" if result.key else "by all columns, because it has no key"
    show.line(f"{name}, as the folder defines it, compared with {old} {by}")
    rows = [(kind, f"{getattr(result, kind):,}", meaning) for kind, meaning in _MEANINGS.items()]
    show.table(("rows", "count", "meaning"), rows, none="")
    for columns, side in ((result.only_old, old), (result.only_new, name)):
        if columns:
            show.line(f"not compared: {', '.join(columns)}, which only {side} has")
    for kind, examples in result.examples.items():
        show.line(f"{kind}, for example:")
        for example in examples:
            show.line(f"  {_describe(kind, example)}")


def _describe(kind: str, example: dict[str, Any]) -> str:
    if kind != "different":
        return ", ".join(f"{name} {_cell(value)}" for name, value in example.items())
    key = ", ".join(f"{name} {_cell(value)}" for name, value in example["key"].items())
    changes = ", ".join(f"{name} {_cell(old)} -> {_cell(new)}" for name, (old, new) in example["changed"].items())
    return f"{key}: {changes}"


def _cell(value: str | None) -> str:
    return "null" if value is None else value


def _write(name: str, old: str, result: Comparison) -> dict[str, Any]:
    counts = {kind: getattr(result, kind) for kind in _MEANINGS}
    columns = {"only_old": list(result.only_old), "only_new": list(result.only_new)}
    return {"table": name, "old": old, "key": list(result.key), **counts, **columns, "examples": dict(result.examples)}
