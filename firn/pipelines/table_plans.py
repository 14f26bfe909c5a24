"""Plans of all tables of a pipeline, each with the columns of those before it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from firn.pipelines.code_plans import plan_code, plan_later, plan_transformed
from firn.pipelines.definition import Definition, Pipeline
from firn.pipelines.errors import InvalidDefinition, Place
from firn.pipelines.graph import read_inputs
from firn.pipelines.plan import Plan
from firn.pipelines.planner import plan_query
from firn.pipelines.validators import check_validator
from firn.protocol.pipeline_code import CodeScope, TableCode
from firn.protocol.pipeline_outputs import OutputMode
from firn.protocol.pipelines import Refresh
from firn.protocol.validators import ValidatorKind

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
    is_later: bool = False
    """Whether only a run knows the columns of its inputs, and plans it then."""

    @property
    def columns(self) -> dict[str, str]:
        """Its columns with their types; empty if they are not known before a run."""
        if self.plan is None or self.is_later or (self.definition.code is not None and self.definition.code.transforms):
            return {}
        return {column.name: column.type or "unknown" for column in self.plan.columns}

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
    planner = _PipelinePlanner(pipeline, load, dict(pipeline.sources))
    return [planner.plan(definition) for definition in pipeline.definitions.values()]


@dataclass
class _PipelinePlanner:
    """`known` are the columns of tables so far; `later` are tables whose columns only a run knows."""

    pipeline: Pipeline
    load: LoadColumns
    known: dict[str, Mapping[str, str] | None]
    later: set[str] = field(default_factory=set)

    def plan(self, definition: Definition) -> TablePlan:
        name, listed = definition.name, self.pipeline.sources.get(definition.name)
        table = self._plan(definition)
        if definition.mode is not OutputMode.COLUMNS:  # others made that table, and it has more columns
            self.known[name] = table.columns or (listed if table.plan is not None else None)
            if table.plan is not None and self.known[name] is None:
                self.later.add(name)
        return table

    def _plan(self, definition: Definition) -> TablePlan:
        inputs = read_inputs(definition)
        if not definition.is_planned:
            return _plan_code(definition, {name: tuple(self.known.get(name) or ()) for name in inputs})
        for name in inputs:
            if name not in self.known:
                self.known[name] = self.load(name)
        schemas = {name: columns for name in inputs if (columns := self.known[name]) is not None}
        if unknown := tuple(name for name in inputs if name not in schemas):
            if not set(unknown) <= self.later:
                return TablePlan(definition, unknown=tuple(name for name in unknown if name not in self.later))
            names = {name: tuple(schemas.get(name, ())) for name in inputs}
            plan = plan_later(names, unknown, definition.key, definition.line)
            return TablePlan(definition, plan, is_later=True)
        return _plan_table(self.pipeline, definition, schemas)


def _plan_code(definition: Definition, inputs: Mapping[str, Sequence[str]]) -> TablePlan:
    code, names = definition.code, list(definition.declared)
    assert code is not None  # noqa: S101 -- only code has no plan of its query
    plan = plan_code(code, inputs, key=definition.key, declared=definition.declared, line=definition.line)
    try:
        _check_mode(definition, plan)
        _check_promise(definition, names)
        for validator in definition.validators:
            check_validator(validator, names, list(inputs), definition.key)
    except InvalidDefinition as problem:
        return TablePlan(definition, problem=problem.in_file(definition.path))
    return TablePlan(definition, plan)


def _check_promise(definition: Definition, columns: Sequence[str]) -> None:
    """The key and the promised scope are columns that the function declares, if it declares any."""
    scope = () if definition.code is None else definition.code.scope
    for role, names in (("key", definition.key), ("scope", scope)):
        if columns and (missing := [name for name in names if name not in columns]):
            text = f"the column {missing[0]} of its {role} is not among those that it declares"
            raise InvalidDefinition(text, line=definition.line, hint=f"it declares {', '.join(columns)}")


def _plan_table(pipeline: Pipeline, definition: Definition, schemas: Mapping[str, Mapping[str, str]]) -> TablePlan:
    schema = hide_filled(schemas, definition.name, definition.output.columns)
    inputs, code = list(schemas), definition.code
    try:
        if code is None:
            plan = plan_query(definition.query, schema, key=definition.key, deterministic=pipeline.deterministic)
            _check_columns(definition, plan)
            names = [column.name for column in plan.columns]
        else:
            plan = _plan_transformed(pipeline, definition, schema, code)
            names = []
        _check_mode(definition, plan)
        for validator in definition.validators:
            check_validator(validator, names, inputs, definition.key)
    except InvalidDefinition as problem:
        if schema != schemas:
            filled = ", ".join(definition.output.columns)
            problem.hint = f"{definition.name} is read without the columns that the pipeline fills: {filled}"
        return TablePlan(definition, problem=problem.in_file(definition.path))
    return TablePlan(definition, plan)


def _plan_transformed(
    pipeline: Pipeline, definition: Definition, schema: Mapping[str, Mapping[str, str]], code: TableCode
) -> Plan:
    if any(entry.scope is CodeScope.KEY for entry in code.transforms) and not definition.key:
        hint = "name the key, or declare another scope"
        raise InvalidDefinition("a transform with scope: key needs a table with a key", line=definition.line, hint=hint)
    return plan_transformed(
        definition.query,
        schema,
        code,
        key=definition.key,
        deterministic=pipeline.deterministic,
        line=definition.line,
    )


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
    _check_compared(definition)
    if definition.mode is OutputMode.COLUMNS:
        _check_filled(definition, plan)
    if definition.mode is not OutputMode.APPEND:  # the folder has checked the queries of those
        _check_policy(definition, plan)


def _check_compared(definition: Definition) -> None:
    """A table that keeps rows of earlier runs, or of others, is not the result of its query."""
    for validator in definition.validators:
        is_kept = definition.mode in (OutputMode.APPEND, OutputMode.COLUMNS)
        if validator.kind is ValidatorKind.SAME_AS_FULL and is_kept:
            text = f"validator {validator.name}: the rows of mode: {definition.mode} are not those of the query now"
            raise InvalidDefinition(text, line=definition.line, hint="remove it")


def _check_filled(definition: Definition, plan: Plan) -> None:
    """The query gives the key and the filled columns. If it reads its own table, it says which rows have changed."""
    selected, wanted = {column.name for column in plan.columns}, {*definition.key, *definition.output.columns}
    if selected and selected != wanted:
        text = (
            f"mode: columns fills {', '.join(definition.output.columns)}, the query gives {', '.join(sorted(selected))}"
        )
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
