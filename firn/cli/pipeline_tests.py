"""`firn pipeline test`: the tests of a folder, and rounds of random changes, in a Spark on this machine."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import firn.spark
from firn import pipelines
from firn.cli.context import CliContext
from firn.cli.show import Show, cell
from firn.embedded.jars import cache_dir
from firn.embedded.process import require_java
from firn.embedded.pyspark_jars import require_pyspark
from firn.embedded.quiet import redirect_stderr
from firn.errors import FirnError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from firn.pipelines.cases import Case
    from firn.pipelines.definition import Pipeline
    from firn.spark.local_pipeline import LocalPipeline
    from firn.spark.pipeline_tests import CaseResult, RandomResult

LoadColumns = Callable[[str], Mapping[str, str] | None]
RandomOption = Annotated[
    int,
    typer.Option("--random", metavar="N", min=0, max=100_000, help="Also run N rounds of random changes of inputs."),
]
SeedOption = Annotated[int | None, typer.Option(help="The seed of a run with --random that is to be repeated.")]
_SHOWN_ROWS = 20


def run_tests(ctx: CliContext, folder: Path, load: LoadColumns, rounds: int, seed: int | None) -> None:
    """Run the tests; exits with 1 if one fails. Raises InvalidDefinition for a definition that is wrong."""
    pipeline = pipelines.read_folder(folder)
    plans, schemas = _plan(pipeline, load)
    cases = pipelines.read_cases(folder, pipeline.qualify)
    if not cases and not rounds:
        raise FirnError(f"{folder} has no tests", hint="write tests/NAME.yml, or add --random 20")
    require_pyspark("firn pipeline test")
    require_java()
    with _open_spark(ctx.show) as spark:
        ready = {name: table.plan for name, table in plans.items() if table.plan is not None}
        local = firn.spark.LocalPipeline(spark, ready, schemas, _list_code(spark, pipeline, plans))
        passed, tests = _run_cases(ctx.show, local, cases)
        equal, compared = True, list[dict[str, Any]]()
        if rounds:
            number = random.SystemRandom().getrandbits(31) if seed is None else seed
            equal, compared = _run_random(ctx.show, local, plans, rounds, number)
    ctx.show.emit({"tests": tests, "random": compared}, lambda: None)
    if not (passed and equal):
        raise typer.Exit(1)


def _plan(pipeline: Pipeline, load: LoadColumns) -> tuple[dict[str, pipelines.TablePlan], dict[str, Mapping[str, str]]]:
    """The plans of all tables, and the columns of the inputs that the pipeline does not make."""
    if pipeline.problems:
        raise pipeline.problems[0]
    schemas: dict[str, Mapping[str, str]] = dict(pipeline.sources)

    def remember(name: str) -> Mapping[str, str] | None:
        columns = load(name)
        if columns is not None:
            schemas[name] = columns
        return columns

    plans = {table.definition.name: table for table in pipelines.plan_pipeline(pipeline, remember)}
    for table in plans.values():
        if table.problem is not None:
            raise table.problem
        if table.unknown:
            hint = "name a --server, or give them in firn-pipeline.yml or a --schema FILE"
            raise FirnError(f"the columns of {', '.join(table.unknown)} are not known", hint=hint)
    return plans, schemas


def _list_code(spark: SparkSession, pipeline: Pipeline, plans: Mapping[str, pipelines.TablePlan]) -> dict[str, Any]:
    """How to compute the tables that Python computes, and queries that only their rows allow to plan."""
    chosen = {name: table for name, table in plans.items() if table.definition.code is not None or table.is_later}
    return {name: firn.spark.compute_by_code(spark, pipeline, table.definition) for name, table in chosen.items()}


def _run_cases(show: Show, local: LocalPipeline, cases: list[Case]) -> tuple[bool, list[dict[str, Any]]]:
    documents, failed = [], 0
    for number, case in enumerate(cases):
        with show.progress(f"test {number + 1} of {len(cases)}") as report:
            report(case.title, number, len(cases))
            results = list(firn.spark.run_case(local, case))
        passed = all(result.has_passed for result in results)
        failed += not passed
        documents.append(_write_case(case, results, passed=passed))
        if not show.json:
            _show_case(show, case, results, passed=passed)
    if cases and not show.json:
        show.line(f"{len(cases) - failed} of {len(cases)} tests passed")
    return not failed, documents


def _run_random(
    show: Show, local: LocalPipeline, plans: Mapping[str, pipelines.TablePlan], rounds: int, seed: int
) -> tuple[bool, list[dict[str, Any]]]:
    with show.progress(f"running {rounds} rounds"):
        results = list(firn.spark.run_random(local, plans, rounds, seed))
    if not show.json:
        for result in results:
            _show_random(show, result, seed)
        for name, table in plans.items():
            if table.plan is not None and (not table.plan.is_incremental or name in local.compute_by):
                show.line(f"{name}  full: nothing to compare")
    documents = [
        {"table": result.table, "rounds": result.rounds, "seed": seed, "equal": result.difference is None}
        for result in results
    ]
    return all(result.difference is None for result in results), documents


def _show_case(show: Show, case: Case, results: list[CaseResult], *, passed: bool) -> None:
    show.line(f"{case.path}  {case.title}  {'passed' if passed else 'FAILED'}")
    for result in results:
        if result.problem:
            show.line(f"  {result.table}: {result.problem}")
        _show_rows(show, result.table, result.columns, result.missing or [], result.surplus or [])


def _show_random(show: Show, result: RandomResult, seed: int) -> None:
    if result.difference is None:
        show.line(f"{result.table}  {result.rounds} rounds: incremental equals full (seed {seed})")
        return
    show.line(f"{result.table}  differs from a full computation in round {result.rounds} (seed {seed})")
    _show_rows(show, result.table, result.columns, result.difference.missing, result.difference.surplus)


def _show_rows(show: Show, table: str, columns: Any, missing: list[Any], surplus: list[Any]) -> None:
    for words, rows in (("lacks", missing), ("has, and should not have,", surplus)):
        if rows:
            count = f"{len(rows)} {'row' if len(rows) == 1 else 'rows'}"
            show.line(f"  {table} {words} {count}:")
            show.table(columns, [[cell(value) for value in row] for row in rows[:_SHOWN_ROWS]], none="")


def _write_case(case: Case, results: list[CaseResult], *, passed: bool) -> dict[str, Any]:
    tables = [
        {
            "table": result.table,
            "problem": result.problem,
            "columns": list(result.columns),
            "missing": [[str(value) for value in row] for row in result.missing or []],
            "surplus": [[str(value) for value in row] for row in result.surplus or []],
        }
        for result in results
    ]
    return {"path": case.path, "name": case.title, "passed": passed, "tables": tables}


@contextmanager
def _open_spark(show: Show) -> Iterator[SparkSession]:
    """A Spark of one core, or the running one of this process, which goes on afterwards."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 -- an extra

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active.newSession()
        return
    show.note("starting Spark …")
    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
    with redirect_stderr(cache_dir() / "pipeline-test.log"):
        spark = SparkSession.builder.appName("firn pipeline test").master("local[1]").config(map=settings).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
