"""The SQL of a table's validators, checked before anything runs.

A validator is what a user has written, and the optimizer runs its SQL: a condition may read the columns of the row
alone, and a query two relations alone, `audited` and `changed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from sqlglot import exp

from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.forbidden import refuse_forbidden
from firn.pipelines.functions import function_name, is_aggregate, is_unknown
from firn.pipelines.parsing import DIALECT, parse_query
from firn.pipelines.tables import find_tables, table_name
from firn.protocol.names import quote_name
from firn.protocol.validators import Severity, Validator, ValidatorKind

AUDITED, CHANGED = "audited", "changed"
"""What the query of a validator may read: the table as it would be, and the rows that the run writes."""
_OF_A_ROW: Final = "a condition reads the columns of its row alone"


def check_validator(validator: Validator, columns: Sequence[str], inputs: Sequence[str], key: Sequence[str]) -> None:
    """Raise InvalidDefinition for a validator that cannot be run on a table with these columns, inputs and key.

    `columns` may be empty: then they are not known.
    """
    for name in validator.columns:
        if columns and name not in columns:
            raise _refuse(validator, f"the result has no column {name}", _find_near(name, columns))
    if validator.severity is Severity.DROP and not validator.kind.is_of_rows:
        kinds = ", ".join(kind for kind in ValidatorKind if kind.is_of_rows)
        raise _refuse(validator, f"{validator.kind} cannot drop rows", f"only these can: {kinds}")
    if validator.kind is ValidatorKind.REFERENCES and validator.table not in inputs:
        hint = f"it reads {', '.join(inputs)}"
        raise _refuse(validator, f"{validator.table} is no input of the query, so a run has no state of it", hint)
    if validator.kind is ValidatorKind.UNIQUE and not key:
        raise _refuse(validator, "unique needs a table with a key", "give the table a key")
    if (validator.kind is ValidatorKind.PYTHON) != (validator.function is not None):
        raise _refuse(validator, "python names a function, and only python does", 'write python: "checks:find_wrong"')
    if validator.kind is ValidatorKind.SQL:
        write_query(validator)
    elif validator.kind.is_of_rows and columns:
        write_condition(validator, columns)


def write_condition(validator: Validator, columns: Sequence[str]) -> str:
    """Spark SQL that is true for each right row of a table with these columns.

    Null is right for all kinds but `expect` and `not_null`. Raises InvalidDefinition for a condition that is no
    expression over the columns.
    """
    if validator.kind is ValidatorKind.EXPECT:
        return f"coalesce({_read_condition(validator, columns)}, false)"
    names = [quote_name(name) for name in validator.columns]
    if validator.kind is ValidatorKind.NOT_NULL:
        return " AND ".join(f"{name} IS NOT NULL" for name in names)
    return " AND ".join(f"({name} IS NULL OR {_CONDITIONS[validator.kind](validator, name)})" for name in names)


def write_query(validator: Validator) -> str:
    """Spark SQL of a validator's query. Raises InvalidDefinition if it reads anything but `audited` and `changed`."""
    try:
        query = parse_query(validator.sql or "")
        refuse_forbidden(query)
    except InvalidDefinition as problem:
        raise _refuse(validator, problem.message, problem.hint) from problem
    for table in find_tables(query):
        if table_name(table) not in (AUDITED, CHANGED):
            raise _refuse(validator, f"it reads {table_name(table)}", f"it may read {AUDITED} and {CHANGED}")
    return str(query.sql(DIALECT))


def _read_condition(validator: Validator, columns: Sequence[str]) -> str:
    text = validator.condition or ""
    try:
        select = parse_query(f"SELECT ({text}\n) AS c FROM {CHANGED}")  # noqa: S608 -- the tree is checked
        refuse_forbidden(select)
    except InvalidDefinition as problem:
        raise _refuse(validator, problem.message, problem.hint) from problem
    if not _is_plain(select):
        raise _refuse(validator, f"{text[:80]!r} is no condition", _OF_A_ROW)
    condition = select.expressions[0].this
    for node in condition.walk():
        if isinstance(node, (exp.Query, exp.Window)) or is_aggregate(node):
            raise _refuse(validator, f"{node.sql(DIALECT)[:80]} reads other rows", _OF_A_ROW)
        if is_unknown(node, frozenset()):
            raise _refuse(validator, f"{function_name(node)}() is no function of Spark", "use Spark's functions")
        if isinstance(node, exp.Column):
            _check_column(validator, node, columns)
    return str(condition.sql(DIALECT))


def _is_plain(select: exp.Expr) -> bool:
    """Whether it is the one column and the one relation that the condition was put between."""
    parts = {name for name, value in select.args.items() if value}
    tables = list(find_tables(select)) if isinstance(select, exp.Query) else []
    return parts == {"expressions", "from_"} and len(select.expressions) == 1 and len(tables) <= 1


def _check_column(validator: Validator, node: exp.Column, columns: Sequence[str]) -> None:
    if node.table or node.name.lower() not in columns:
        raise _refuse(
            validator, f"the result has no column {node.sql(DIALECT)}", _find_near(node.name.lower(), columns)
        )


def _write_accepted(validator: Validator, name: str) -> str:
    return f"CAST({name} AS STRING) IN ({', '.join(map(_quote, validator.values))})"


def _write_range(validator: Validator, name: str) -> str:
    bounds = [(">=", validator.minimum), ("<=", validator.maximum)]
    return "(" + " AND ".join(f"{name} {sign} {_quote(text)}" for sign, text in bounds if text is not None) + ")"


def _write_match(validator: Validator, name: str) -> str:
    return f"CAST({name} AS STRING) RLIKE {_quote(validator.pattern or '')}"


_CONDITIONS: Mapping[ValidatorKind, Callable[[Validator, str], str]] = {
    ValidatorKind.ACCEPTED: _write_accepted,
    ValidatorKind.RANGE: _write_range,
    ValidatorKind.MATCHES: _write_match,
}


def _quote(text: str) -> str:
    return str(exp.Literal.string(text).sql(DIALECT))


def _refuse(validator: Validator, text: str, hint: str | None) -> InvalidDefinition:
    return InvalidDefinition(f"validator {validator.name}: {text}", hint=hint)


def _find_near(name: str, names: Sequence[str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"it has {', '.join(names)}"
