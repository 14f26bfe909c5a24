"""Runs the tests of a pipeline: the cases of its folder, and rounds of random changes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firn.errors import Invalid
from firn.pipelines.cases import Case, RowChanges, TextRow
from firn.pipelines.generated_rows import RowSource, find_literals
from firn.pipelines.table_plans import TablePlan
from firn.spark.local_pipeline import Difference, LocalPipeline, Rows, compare_rows

_FIRST_ROWS = 14


@dataclass(frozen=True)
class CaseResult:
    """The end of a case for one table: what its rows lack, and which they have too many. Both are empty if it passed.

    `columns` are those of the rows. `problem` is set if the case could not be run, or an incremental computation
    differs from a full one.
    """

    table: str
    columns: Sequence[str] = ()
    missing: Rows | None = None
    surplus: Rows | None = None
    problem: str | None = None

    @property
    def has_passed(self) -> bool:
        """Whether the table is as expected."""
        return not (self.missing or self.surplus or self.problem)


@dataclass(frozen=True)
class RandomResult:
    """The rounds of one table: how many were equal, and the difference of the first that was not."""

    table: str
    rounds: int
    columns: Sequence[str]
    difference: Difference | None = None


def run_case(pipeline: LocalPipeline, case: Case) -> Iterator[CaseResult]:
    """Run one case; a result for each table that it expects something of."""
    try:
        _check_names(pipeline, case)
        inputs = {table: pipeline.read_texts(table, rows) for table, rows in case.given.items()}
        pipeline.build(inputs)
        pipeline.change({table: _apply(pipeline, table, change) for table, change in case.change.items()})
        for table, rows in case.expect.items():
            yield _judge(pipeline, table, rows)
    except Invalid as error:
        yield CaseResult(next(iter(case.expect)), problem=error.message)


def run_random(
    pipeline: LocalPipeline, plans: Mapping[str, TablePlan], rounds: int, seed: int
) -> Iterator[RandomResult]:
    """Change the inputs at random, so many times, and compare each incremental table with a full computation.

    Ends after the first difference. Raises Invalid for inputs of which no random rows can be made.
    """
    chance = random.Random(seed)  # noqa: S311 -- test data
    literals = find_literals([plan.definition.query for plan in plans.values()])
    sources = {name: RowSource(name, columns, literals, chance) for name, columns in pipeline.schemas.items()}
    pipeline.build({name: source.make(_FIRST_ROWS) for name, source in sources.items()})
    own = pipeline.compute_by
    incremental = [name for name, plan in pipeline.plans.items() if plan.is_incremental and name not in own]
    for number in range(1, rounds + 1):
        chosen = [name for name in sources if chance.random() < 0.6] or [chance.choice(list(sources))]
        pipeline.change({name: sources[name].change(pipeline.rows[name]) for name in chosen})
        for name in incremental:
            if difference := pipeline.compare(name):
                yield RandomResult(name, number, pipeline.types[name].names, difference)
                return
    yield from (RandomResult(name, rounds, pipeline.types[name].names) for name in incremental)


def _check_names(pipeline: LocalPipeline, case: Case) -> None:
    for table in (*case.given, *case.change):
        if table not in pipeline.schemas:
            hint = f"a test gives rows of {', '.join(pipeline.schemas)}"
            raise Invalid(f"{table} is no input of the pipeline", hint=hint)
    for table in case.expect:
        if table not in pipeline.plans:
            raise Invalid(f"the pipeline makes no table {table}", hint=f"it makes {', '.join(pipeline.plans)}")


def _apply(pipeline: LocalPipeline, table: str, change: RowChanges) -> Rows:
    """The rows of an input after a change of a case. Raises Invalid for a deleted row that is not there."""
    gone = pipeline.read_texts(table, change.delete)
    difference = compare_rows(gone, pipeline.rows[table])
    if difference.missing:
        raise Invalid(f"{table} has no row {difference.missing[0]!r} to delete")
    return difference.surplus + pipeline.read_texts(table, change.insert)


def _judge(pipeline: LocalPipeline, table: str, rows: Sequence[TextRow]) -> CaseResult:
    expected = pipeline.read_texts(table, rows)
    named = {name for row in rows for name in row}
    columns = [name for name in pipeline.types[table].names if name.lower() in named or not rows]
    positions = [pipeline.types[table].names.index(name) for name in columns]
    difference = compare_rows(*([_pick(row, positions) for row in side] for side in (expected, pipeline.rows[table])))
    problem = "an incremental computation differs from a full one" if pipeline.compare(table) else None
    return CaseResult(table, columns, difference.missing, difference.surplus, problem)


def _pick(row: Sequence[Any], positions: Sequence[int]) -> tuple[Any, ...]:
    return tuple(row[position] for position in positions)
