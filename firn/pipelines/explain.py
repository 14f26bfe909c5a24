"""Plans in words, for people, and as JSON, for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from firn.pipelines.plan import Access, Plan, Reason, Term
from firn.pipelines.table_plans import TablePlan
from firn.protocol.pipelines import Refresh


def explain_table(table: TablePlan) -> list[str]:
    """The lines that say how a table is computed, and why."""
    definition, plan = table.definition, table.plan
    if table.problem is not None:
        return [f"{definition.name}  {table.problem.message}{_hint(table.problem.hint)}"]
    if plan is None:
        return [f"{definition.name}  not planned: the columns of {_join(table.unknown)} are not known"]
    lines = [f"{definition.name}  {_describe_strategy(table, plan)}"]
    if others := [name for name in definition.consistent if name != definition.name]:
        lines.append(f"  moves together with {_join(others)}: one run computes them, one transaction commits them")
    if definition.output.max_commits is not None:
        lines.append(f"  a run takes at most {definition.output.max_commits:,} new commits, and the next one continues")
    if table.is_append:
        return [*lines, *(f"  {line}" for line in _align(list(_describe_streams(table, plan))))]
    lines += [f"  {line}" for line in _describe_code(table)]
    if table.is_incremental:
        lines += [f"  {line}" for line in _align(list(_describe_inputs(plan)))]
        lines += [f"  {line}" for line in (*_describe_adding(table, plan), *_describe_pruning(plan))]
    else:
        lines += [f"  {explain_reason(reason, definition.path)}" for reason in plan.reasons]
    return lines + [f"  warning: {explain_reason(warning, definition.path)}" for warning in plan.warnings]


def _describe_code(table: TablePlan) -> Iterator[str]:
    code = table.definition.code
    if code is None:
        return
    if code.function is not None:
        yield f"{code.function.name} of {code.function.path} computes it; an optimizer with --allow-code runs it"
    if not code.is_sql and table.is_incremental:
        names = _join(code.scope)
        yield f"its promise: rows with equal {names} depend on rows of the inputs with the same {names} alone"
    for entry in code.transforms:
        yield f"then {entry.function.name} of {entry.function.path}, scope {entry.scope}"


def explain_reason(reason: Reason, path: str = "") -> str:
    """One sentence with the place, and what to write instead."""
    path = reason.path or path
    place = path if reason.line is None else f"{path}, line {reason.line}"
    return f"{reason.text} ({place}). {reason.remedy}."


def write_table(table: TablePlan) -> dict[str, Any]:
    """The same as JSON."""
    definition, plan = table.definition, table.plan
    document: dict[str, Any] = {
        "table": definition.name,
        "path": definition.path,
        "line": definition.line,
        "refresh": str(definition.refresh),
        "key": list(definition.key),
        "consistent": list(definition.consistent),
        "problem": None if table.problem is None else table.problem.message,
        "unknown": list(table.unknown),
        "strategy": None,
    }
    if plan is not None:
        document |= {
            "mode": str(definition.mode),
            "streams": list(definition.output.streams),
            "strategy": "incremental" if table.is_incremental else "full",
            "columns": [{"name": column.name, "type": column.type} for column in plan.columns],
            "inputs": [source.name for source in plan.inputs],
            "scope": list(plan.scope),
            "terms": [] if table.is_append else [_write_term(term) for term in plan.terms],
            "pruned": {name: list(columns) for name, columns in plan.pruned_columns().items()},
            "reasons": [] if table.is_append else [_write_reason(reason) for reason in plan.reasons],
            "warnings": [_write_reason(warning) for warning in plan.warnings],
        }
    return document


def describe_term(term: Term) -> str:
    """How the changes of an input find the affected values."""
    own, joined = _join(term.equal), _join(term.joined)
    if term.access is Access.ROWS:
        return f"{own} {_is(term.equal)} read from its changed rows"
    lacking = f"{_join(term.others)} {_is(term.others)} not in its changed rows"
    if term.equal:
        lacking = f"{own} {_is(term.equal)} in its changed rows, {_join(term.others)} {_is(term.others)} not"
    if term.access is Access.JOIN:
        return f"{lacking}: they are joined with {joined} at both states"
    return f"{lacking}: the rows of {joined} that match them are read at both states"


def explain_term(term: Term) -> str:
    """The same, and whether a run adds the changes to counts and sums."""
    added = "; if it alone has changed, its changes are added to counts and sums" if term.is_added else ""
    return f"{describe_term(term)}{added}"


def _describe_strategy(table: TablePlan, plan: Plan) -> str:
    policy = table.definition.refresh
    if table.is_append:
        return "append: rows that a run adds stay as they are"
    if not table.is_incremental:
        return "full, as refresh says" if policy is Refresh.FULL else "full"
    part = " (its key)" if plan.key and set(plan.scope) == set(plan.key) else ""
    return f"incremental, scope {_join(plan.scope)}{part}{'' if policy is Refresh.AUTO else f'  {policy}'}"


def _describe_inputs(plan: Plan) -> Iterator[tuple[str, str]]:
    for term in plan.terms:
        name = _join(term.inputs)
        yield (f"{name} (in {term.derived})" if term.derived else name), describe_term(term)


def _describe_streams(table: TablePlan, plan: Plan) -> Iterator[tuple[str, str]]:
    output = table.definition.output
    others = "are left out" if output.skip_changes else "fail the run"
    for read in plan.inputs:
        is_stream = read.name in output.streams
        yield read.name, f"only new rows are read; changed and deleted ones {others}" if is_stream else "read as it is"


def _describe_adding(table: TablePlan, plan: Plan) -> Iterator[str]:
    names = plan.maintained_by()
    if names and table.definition.code is None:
        yield f"if {' or '.join(names)} alone has changed, its changes are added to counts and sums"


def _describe_pruning(plan: Plan) -> Iterator[str]:
    columns = plan.pruned_columns()
    if columns:
        read = [column for names in columns.values() for column in names]
        yield f"of few affected values, a run reads only the rows with these values in {_join(dict.fromkeys(read))}"


def _align(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(name) for name, _ in rows), default=0)
    return [f"{name:{width}}  {text}" for name, text in rows]


def _write_term(term: Term) -> dict[str, Any]:
    return {
        "inputs": list(term.inputs),
        "derived": term.derived,
        "access": str(term.access),
        "equal": list(term.equal),
        "others": list(term.others),
        "joined": list(term.joined),
        "text": explain_term(term),
    }


def _write_reason(reason: Reason) -> dict[str, Any]:
    return {
        "text": reason.text,
        "remedy": reason.remedy,
        "path": reason.path,
        "line": reason.line,
        "column": reason.column,
    }


def _join(names: Sequence[str] | dict[str, None]) -> str:
    return ", ".join(names)


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _hint(hint: str | None) -> str:
    return f"; {hint}" if hint else ""
