"""`firn pipeline init|validate|plan|test`: tables that SQL defines, and which of them runs can keep incrementally."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firn import pipelines
from firn.cli.context import CliContext, command
from firn.cli.pipeline_comparison import CompareOption, Request, TableOption, ToleranceOption, compare
from firn.cli.pipeline_definitions import put_folder, show_put
from firn.cli.pipeline_plans import analyze
from firn.cli.pipeline_tests import RandomOption, SeedOption, run_tests
from firn.errors import Invalid, NotFound
from firn.pipelines import example
from firn.protocol.pipeline_plan import NextMode

if TYPE_CHECKING:
    from firn.pipelines.definition import Pipeline
    from firn.pipelines.errors import InvalidDefinition
    from firn.pipelines.imported import Import

app = typer.Typer(help="Define tables by SQL, and see which of them can be kept incrementally.", no_args_is_help=True)


class System(StrEnum):
    """Systems whose definitions can be imported."""

    DBT = "dbt"
    HUDI = "hudi"


FolderArg = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the pipeline.", file_okay=False)]
SchemaOption = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help="Columns of input tables: a YAML file of TABLE: {COLUMN: TYPE}.",
        exists=True,
        dir_okay=False,
    ),
]


@command(app, "init", local=True)
def init(
    ctx: CliContext,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="SOURCE", help="With --from: the dbt project, or the file of a Hudi Streamer.", exists=True
        ),
    ] = None,
    *,
    system: Annotated[
        System | None, typer.Option("--from", help="Import the definitions of another system.", case_sensitive=False)
    ] = None,
) -> None:
    """Make a folder with a small pipeline, or with the tables of a dbt project or a Hudi Streamer.

    With --from dbt, SOURCE is a project after `dbt compile --full-refresh`. With --from hudi, it is a properties file
    of a Streamer, or the script that starts it. Firn runs nothing of it, and reports what did not map.
    """
    if (system is None) != (source is None):
        raise Invalid("--from and SOURCE belong together", hint="firn pipeline init orders --from dbt DIR")
    if system is not None and source is not None:
        _import(ctx, folder, pipelines.import_dbt(source) if system is System.DBT else pipelines.import_hudi(source))
        return
    paths = example.write_example(folder)
    ctx.show.emit(
        {"files": [str(path) for path in paths]},
        lambda: ctx.show.line(f"{folder} has a pipeline of 3 tables. See: firn pipeline plan {folder}"),
    )


def _import(ctx: CliContext, folder: Path, result: Import) -> None:
    paths = result.write(folder)

    def write() -> None:
        for gap in result.gaps:
            ctx.show.line(f"{gap.subject}: {gap.text}")
        ctx.show.line(
            f"{folder} has {_count(len(result.statements), 'statement')}; {_count(len(result.gaps), 'gap')}. "
            f"See: firn pipeline validate {folder}"
        )

    gaps = [{"subject": gap.subject, "text": gap.text} for gap in result.gaps]
    ctx.show.emit({"files": [str(path) for path in paths], "gaps": gaps}, write)


@command(app, "validate")
def validate(ctx: CliContext, folder: FolderArg = Path(), schema: SchemaOption = None) -> None:
    """Check the definitions of a folder. Exits with 2 if one is wrong.

    Columns of inputs come from --schema, `firn-pipeline.yml`, and the server, if --server names one. If the columns of
    an input are not known, the tables that read it are checked for syntax, names and cycles alone.
    """
    pipeline = pipelines.read_folder(folder)
    tables = pipelines.plan_pipeline(pipeline, _load_columns(ctx, schema))
    problems = _list_problems(pipeline, tables)
    unknown = sorted({name for table in tables for name in table.unknown})
    document = {
        "name": pipeline.name,
        "tables": [table.definition.name for table in tables],
        "problems": [{"message": problem.message, "hint": problem.hint} for problem in problems],
        "warnings": [pipelines.explain_reason(warning) for warning in pipeline.warnings],
        "unknown": unknown,
    }

    def write() -> None:
        for warning in pipeline.warnings:
            ctx.show.line(f"warning: {pipelines.explain_reason(warning)}")
        for problem in problems:
            ctx.show.line(f"{problem.message}{f'; {problem.hint}' if problem.hint else ''}")
        for name in unknown:
            ctx.show.line(f"the columns of {name} are not known: name a --server, or give them in a --schema FILE")
        if not problems:
            ctx.show.line(f"{folder} is valid: {_count(len(tables), 'table')}")

    ctx.show.emit(document, write)
    if problems:
        raise typer.Exit(2)


@command(app, "plan")
def plan(
    ctx: CliContext,
    folder: FolderArg = Path(),
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="One table (default: all).")] = None,
    schema: SchemaOption = None,
    *,
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL of an incremental run, too.")] = False,
    definition: Annotated[
        bool, typer.Option("--definition", help="Show what `put` would do to the tables of the server.")
    ] = False,
    analyzes: Annotated[
        bool, typer.Option("--analyze", help="Show what the next runs on the server do; DIR may be a pipeline's name.")
    ] = False,
) -> None:
    """Show how each table is kept up to date: incrementally or in full, by which columns, and why.

    Columns of inputs come from --schema, `firn-pipeline.yml`, and the server, if --server names one. Exits with 2 if a
    definition is wrong, and with 1 if the columns of an input are not known.

    With --definition: nothing, new columns, or a rebuild. With --analyze: the changes of each input since the last run,
    and what either way would read. Exits with 1 if a run would be refused.
    """
    if sum((sql, definition, analyzes)) > 1:
        raise Invalid("--sql, --definition and --analyze exclude each other", hint="say one of them")
    if analyzes:
        if any(run.mode == NextMode.FAILS for run in analyze(ctx, folder, table).tables):
            raise typer.Exit(1)
        return
    if definition:
        result = put_folder(ctx, folder, rebuild=False, dry_run=True)
        ctx.show.emit(result.json_value(), lambda: show_put(ctx, result, dry_run=True))
        return
    _plan_folder(ctx, folder, table, schema, sql=sql)


def _plan_folder(ctx: CliContext, folder: Path, table: str | None, schema: Path | None, *, sql: bool) -> None:
    pipeline = pipelines.read_folder(folder)
    if pipeline.problems:
        raise pipeline.problems[0]
    chosen = [
        planned
        for planned in pipelines.plan_pipeline(pipeline, _load_columns(ctx, schema))
        if table is None or planned.definition.name == table or planned.definition.name.endswith(f".{table}")
    ]
    if not chosen:
        raise NotFound(f"{folder} defines no table {table}", hint=f"it defines {', '.join(pipeline.definitions)}")

    def write() -> None:
        for planned in chosen:
            for line in pipelines.explain_table(planned):
                ctx.show.line(line)
            for name, text in _list_sql(planned).items() if sql else ():
                ctx.show.line(f"  {name}: {text}")

    documents = [pipelines.write_table(planned) | ({"sql": _list_sql(planned)} if sql else {}) for planned in chosen]
    ctx.show.emit(documents, write)
    if any(planned.problem is not None for planned in chosen):
        raise typer.Exit(2)
    if any(planned.unknown for planned in chosen):
        raise typer.Exit(1)


@command(app, "test")
def run_tests_of_folder(  # noqa: PLR0913, PLR0917 -- its options are what people type
    ctx: CliContext,
    folder: FolderArg = Path(),
    rounds: RandomOption = 0,
    seed: SeedOption = None,
    schema: SchemaOption = None,
    old: CompareOption = None,
    table: TableOption = None,
    tolerance: ToleranceOption = 1e-9,
) -> None:
    """Run the tests of a folder, `tests/*.yml`, in a Spark on this machine. Exits with 1 if one fails.

    With --random, Firn changes random rows of the inputs in each round, and compares each table that it keeps
    incrementally with a full computation. With --compare, it computes a table from the server's inputs, stores
    nothing, and compares the rows with those of another table.
    """
    if old is not None:
        compare(ctx, folder, Request(old, table, tolerance))
        return
    if table is not None:
        raise Invalid("--table belongs to --compare", hint="firn pipeline test DIR --compare OLD_TABLE --table TABLE")
    run_tests(ctx, folder, _load_columns(ctx, schema), rounds, seed)


def _load_columns(ctx: CliContext, path: Path | None) -> Callable[[str], Mapping[str, str] | None]:
    """Columns by table: of the file, else of the server if one is named."""
    listed = {} if path is None else pipelines.read_schema(path)

    def load(name: str) -> Mapping[str, str] | None:
        if name in listed or ctx.server is None:
            return listed.get(name)
        try:
            columns = ctx.client.tables[name].show().columns
        except (NotFound, Invalid):
            return None
        return {column.name: pipelines.read_spark_type(column.type) for column in columns}

    return load


def _list_sql(planned: pipelines.TablePlan) -> dict[str, str]:
    if planned.plan is None or planned.is_later or not planned.definition.is_planned:
        return {}
    if not planned.is_incremental:
        return {"full": planned.plan.full()}
    steps = planned.plan.affected({source.name for source in planned.plan.inputs})
    return {step.name: step.sql for step in steps} | {"rows": planned.plan.rows()}


def _list_problems(pipeline: Pipeline, tables: Iterable[pipelines.TablePlan]) -> list[InvalidDefinition]:
    """Each problem once: tables that read the same view have the same problem."""
    problems = [*pipeline.problems, *(table.problem for table in tables if table.problem is not None)]
    return list({problem.message: problem for problem in problems}.values())


def _count(number: int, word: str) -> str:
    return f"1 {word}" if number == 1 else f"{number} {word}s"
