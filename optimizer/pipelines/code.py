"""Runs of tables that Python computes: the code instead of a plan's SQL, and checks of what it promised.

An incremental run gives the code the rows of affected values alone, and replaces the table's rows with these values.
Rows with other values would be doubled, so a run that gets one fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from types import MappingProxyType

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.pipelines.code_plans import plan_code, plan_transformed
from firn.pipelines.parsing import parse_query
from firn.pipelines.plan import Plan
from firn.protocol.pipeline_code import TableCode
from firn.protocol.pipelines import TableDefinition
from firn.spark.python_code import CodeContext, CodeRunner
from optimizer.errors import Refused
from optimizer.pipelines.computing import Affected, Computing
from optimizer.pipelines.context import RunContext
from optimizer.pipelines.inputs import PinnedInput

NOT_ALLOWED = (
    "the run has Python, and this optimizer runs none: start one with --allow-code for the group of the table "
    "(firn.optimize.group), and run again"
)


@dataclass(frozen=True)
class RunCode:
    """The code of a table, ready to run."""

    code: TableCode
    query: str
    runner: CodeRunner
    context: CodeContext

    def compute(self, frames: Mapping[str, DataFrame], mode: str) -> DataFrame:
        """All rows of the table over these inputs."""
        return self.transform(self.runner.compute(self.query, frames), mode)

    def transform(self, rows: DataFrame, mode: str, scope: Sequence[str] = ()) -> DataFrame:
        """Rows after all transforms."""
        return self.runner.transform(rows, replace(self.context, mode=mode, scope=tuple(scope)))


def build_code(context: RunContext, definition: TableDefinition) -> RunCode | None:
    """The code of a table; None if it has none. Raises Refused on an optimizer that runs no code."""
    if definition.has_code and not context.allow_code:
        raise Refused(NOT_ALLOWED)
    code = definition.code
    if code is None:
        return None
    runner = CodeRunner(context.spark, code, context.texts, context.lake.catalog)
    about = CodeContext(context.pipeline, definition.name, context.run_id, log=context.say)
    return RunCode(code, definition.query, runner, about)


def plan_table(
    code: TableCode, definition: TableDefinition, schema: Mapping[str, Mapping[str, str]], deterministic: Sequence[str]
) -> Plan:
    """The plan of a table with code, over inputs with these columns. Raises InvalidDefinition."""
    key, line = definition.key, definition.line
    if not code.is_sql:
        return plan_code(code, {name: tuple(columns) for name, columns in schema.items()}, key=key, line=line)
    query = parse_query(definition.query)
    return plan_transformed(query, schema, code, key=key, deterministic=deterministic, line=line)


def find_outside(plan: Plan, code: TableCode, inputs: Mapping[str, PinnedInput], changed: Sequence[str]) -> str | None:
    """Why changes of an input cannot be followed: it lacks columns of the promised scope."""
    if code.is_sql:
        return None
    for name in changed:
        columns = {column.lower() for column in inputs[name].read_new().columns}
        if missing := [column for column in plan.scope if column not in columns]:
            return f"{name} has changed, and has no column {', '.join(missing)} of the scope that Python promises"
    return None


@dataclass(frozen=True)
class CodeComputing(Computing):
    """Computes rows by code."""

    code: RunCode | None = field(default=None, kw_only=True)

    @property
    def _run(self) -> RunCode:
        assert self.code is not None  # noqa: S101 -- nobody makes one without
        return self.code

    def compute_full(self, frames: Mapping[str, DataFrame] = MappingProxyType({})) -> DataFrame:
        """All rows of the table at the new pins, or those over other `frames` of some inputs."""
        mode = "append" if frames else "full"
        if self._run.code.is_sql:
            return self._run.transform(super().compute_full(frames), mode)
        inputs = {name: frames[name] if name in frames else pinned.read_new() for name, pinned in self.inputs.items()}
        return self._run.compute(inputs, mode)

    def compute_affected(self, affected: Affected) -> DataFrame:
        """The rows of the table with affected values. Raises Refused for code that breaks its promise."""
        if self._run.code.is_sql:
            rows = super().compute_affected(affected)
        else:
            rows = self._run.runner.compute(
                self._run.query, {name: self._restrict(pinned, affected) for name, pinned in self.inputs.items()}
            )
        rows = self.keep(self._run.transform(rows, "incremental", affected.scope))
        self._check_promise(rows, affected)
        return rows

    def _restrict(self, pinned: PinnedInput, affected: Affected) -> DataFrame:
        """The rows with affected values; all rows of an input without these columns, which has not changed."""
        rows = pinned.read_new()
        columns = {column.lower() for column in rows.columns}
        return affected.restrict(rows) if columns >= {*affected.scope} else rows

    def _find_changed(self, changed: Sequence[str]) -> Affected | None:
        if self._run.code.is_sql:
            return super()._find_changed(changed)
        parts = [self._read_values(self.inputs[name]) for name in changed]
        return self.count_affected(reduce(DataFrame.unionByName, parts).distinct()) if parts else None

    def _read_values(self, pinned: PinnedInput) -> DataFrame:
        """The values of the scope in the changed rows of an input. Code may read any column."""
        columns = pinned.read_new().columns
        names = {column.lower(): column for column in columns}
        row = F.col("row")
        values = (row.getField(names[name]).alias(name) for name in self.plan.scope)
        return pinned.read_changed(columns).frame.select(*values)

    def _check_promise(self, rows: DataFrame, affected: Affected) -> None:
        """Raise Refused for rows with values that the code was not given."""
        columns = {name.lower() for name in rows.columns}
        names, code = ", ".join(affected.scope), self._run.code
        if missing := [name for name in affected.scope if name not in columns]:
            raise Refused(
                f"{_name_code(code)} gives no column {', '.join(missing)}, by which the run computes what changed. "
                "Keep the column, or declare scope: all"
            )
        wrong = affected.exclude(rows).limit(1).collect()
        if wrong:
            values = ", ".join(f"{name}={wrong[0][name]}" for name in affected.scope)
            raise Refused(
                f"{_name_code(code)} breaks its promise: from the rows of some values of {names} it made a row of "
                f"other values, {values}. Nothing was committed. Declare a scope that it keeps, or scope: all"
            )


def _name_code(code: TableCode) -> str:
    functions = code.list_functions()
    return " and ".join(f"{function.name}() of {function.path}" for function in functions) or "the query"
