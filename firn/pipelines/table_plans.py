"""Plans of all tables of a pipeline, each with the columns of those before it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from firn.pipelines.definition import Definition, Pipeline
from firn.pipelines.errors import InvalidDefinition, Place
from firn.pipelines.graph import read_inputs
from firn.pipelines.plan import Plan
from firn.pipelines.planner import plan_query
from firn.pipelines.validators import check_validator
from firn.protocol.pipeline_outputs import OutputMode
from firn.protocol.pipelines import Refresh

LoadColumns = Callable[[str], Mapping[str, str] | None]
"""Columns and types of a table by its name; None if it is not known."""


@dataclass(frozen=True)
class TablePlan:
    """A table of a pipeline with its plan.

    Without a plan, `problem` says what is wrong with the definition, or `unknown` names the inputs whose columns are
    not known.
    """

    definition: Definition
    plan: Plan | None = None
    problem: InvalidDefinition | None = None
    unknown: tuple[str, ...] = ()

    @property
    def is_incremental(self) -> bool:
        """Whether runs compute only what changed: the query allows it, and the owner has not asked for full."""
        if self.plan is None or self.is_append:
            return self.plan is not None
        return self.plan.is_incremental and self.definition.refresh is not Refresh.FULL

    @property
    def is_append(self) -> bool:
        """Whether runs add rows of new rows of streams."""
        return self.definition.mode is OutputMode.APPEND


def plan_pipeline(pipeline: Pipeline, load: LoadColumns) -> list[TablePlan]:
    """Plan each table, in the pipeline's order. `load` has the inputs that the pipeline neither makes nor lists."""
    known: dict[str, Mapping[str, str] | None] = dict(pipeline.sources)
    plans = []
    for name, definition in pipeline.definitions.items():
        table = _plan_table(pipeline, definition, known, load)
        if definition.mode is not OutputMode.COLUMNS:  # others made that table, and it has more columns
            plan = table.plan
            known[name] = None if plan is None else {c.name: c.type or "unknown" for c in plan.columns} or None
        plans.append(table)
    return plans


def _plan_table(
    pipeline: Pipeline, definition: Definition, known: dict[str, Mapping[str, str] | None], load: LoadColumns
) -> TablePlan:
    inputs = read_inputs(definition)
    for name in inputs:
        if name not in known:
            known[name] = load(name)
    given = {name: columns for name in inputs if (columns := known[name]) is not None}
    schema = hide_filled(given, definition.name, definition.output.columns)
    if unknown := tuple(name for name in inputs if name not in schema):
        return TablePlan(definition, unknown=unknown)
    try:
        plan = plan_query(definition.query, schema, key=definition.key, deterministic=pipeline.deterministic)
        _check_columns(definition, plan)
        _check_mode(definition, plan)
        for validator in definition.validators:
            names = [column.name for column in plan.columns]
            check_validator(validator, names, list(inputs), definition.key)
    except InvalidDefinition as problem:
        if schema != given:
            filled = ", ".join(definition.output.columns)
            problem.hint = f"{definition.name} is read without the columns that the pipeline fills: {filled}"
        return TablePlan(definition, problem=problem.in_file(definition.path))
    return TablePlan(definition, plan)


def hide_filled(
    schema: Mapping[str, Mapping[str, str]], table: str, filled: Collection[str]
) -> dict[str, Mapping[str, str]]:
    """The columns of inputs without those of `table` that its own query fills: its runs would start each other."""
    hidden = {name.lower() for name in filled}
    return {
        name: {column: kind for column, kind in columns.items() if column.lower() not in hidden}
        if name.lower() == table.lower()
        else columns
        for name, columns in schema.items()
    }


def _check_columns(definition: Definition, plan: Plan) -> None:
    """The columns that the statement lists are those of the query."""
    names = tuple(column.name for column in plan.columns)
    if definition.columns and names and definition.columns != names:
        text = f"the statement lists {', '.join(definition.columns)}, the query gives {', '.join(names)}"
        raise InvalidDefinition(text, line=definition.line, hint="name the columns of the query with AS")


def _check_mode(definition: Definition, plan: Plan) -> None:
    if definition.mode is OutputMode.COLUMNS:
        _check_filled(definition, plan)
    if definition.mode is not OutputMode.APPEND:  # the folder has checked the queries of those
        _check_policy(definition, plan)


def _check_filled(definition: Definition, plan: Plan) -> None:
    """The query gives the key and the filled columns. If it reads its own table, it says which rows have changed."""
    given, wanted = {column.name for column in plan.columns}, {*definition.key, *definition.output.columns}
    if given and given != wanted:
        text = f"mode: columns fills {', '.join(definition.output.columns)}, the query gives {', '.join(sorted(given))}"
        raise InvalidDefinition(text, line=definition.line, hint=f"select {', '.join(sorted(wanted))}")
    if definition.name in read_inputs(definition) and not plan.is_incremental:
        text = f"{definition.name} reads itself, and must be computed in full: {plan.reasons[0].text}"
        raise InvalidDefinition(text, line=definition.line, hint=plan.reasons[0].remedy)


def _check_policy(definition: Definition, plan: Plan) -> None:
    if definition.refresh is Refresh.STRICT and not plan.is_incremental:
        reason = plan.reasons[0]
        text = f"{definition.name} is strict, and must be computed in full: {reason.text}"
        place = Place(reason.line, reason.column, reason.path)
        raise InvalidDefinition.at(place, text, hint=reason.remedy)
