"""Tables that Python computes, as definitions: what it reads stands for its query until a run calls it.

A function is a definition whose query is `SELECT *` from the tables that it reads. So inputs, cycles and views are
found as those of SQL are. Nobody runs this query.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from firn.pipelines.code_settings import CodeSettings
from firn.pipelines.definition import Definition
from firn.pipelines.errors import InvalidDefinition, Place
from firn.pipelines.parsing import DIALECT, set_place
from firn.pipelines.python_files import VIEW, PythonDefinition, read_python
from firn.pipelines.python_modules import fingerprint_modules
from firn.pipelines.statements import Statement, StatementKind
from firn.pipelines.types import check_types
from firn.protocol.pipeline_code import CodeFunction, CodeView, TableCode

SCOPE = "firn.scope"


def read_python_statements(text: str) -> list[Statement]:
    """The definitions of a Python file as statements. Raises InvalidDefinition."""
    return [_write_statement(definition) for definition in read_python(text)]


def _write_statement(definition: PythonDefinition) -> Statement:
    options, line = definition.options, definition.line
    name = tuple(part for part in definition.name.split(".") if part)
    kind = StatementKind.VIEW if definition.kind == VIEW else StatementKind.TABLE
    if kind is StatementKind.VIEW and (len(name) > 1 or definition.reads.hidden is not None):
        if len(name) > 1:
            raise InvalidDefinition("a temporary view has no namespace", line=line)
        refuse_hidden(definition)
    return Statement(
        name=name,
        query=write_reads(definition.reads.tables),
        line=line,
        kind=kind,
        partitioned_by=tuple(options.get("partition_cols") or ()),
        properties={key: (value, line) for key, value in (options.get("table_properties") or {}).items()},
        python=definition,
    )


def refuse_hidden(definition: PythonDefinition) -> None:
    """Raise InvalidDefinition if a read of a function hides its table."""
    hidden = definition.reads.hidden
    if hidden is not None:
        text = f"{definition.function} reads a table whose name is no literal"
        raise InvalidDefinition.at(hidden, text, hint="write the name, or list `reads` in YAML")


def write_reads(tables: Mapping[tuple[str, ...], Place]) -> exp.Select:
    """A query of all these tables, with the places where the code names them."""
    query = exp.select(exp.Star())
    for number, (parts, place) in enumerate(tables.items()):
        names = [exp.to_identifier(part, quoted=True) for part in parts]
        for name in names:
            set_place(name, place)
        table = exp.Table(
            this=names[-1],
            db=names[-2] if len(names) > 1 else None,
            catalog=names[-3] if len(names) > 2 else None,
        )
        query = query.join(table, join_type="cross", copy=False) if number else query.from_(table, copy=False)
    return query


def read_declared(python: PythonDefinition) -> dict[str, str]:
    """The columns of `schema="a INT, b STRING"` with their types of Spark; empty if it has none, or another form."""
    text = python.options.get("schema")
    if not text:
        return {}
    try:
        table = exp.DataType.build(f"STRUCT<{text.strip()}>", dialect=DIALECT)
    except (SqlglotError, ValueError, RecursionError) as error:
        raise _refuse_schema(python, text) from error
    pairs = [(part.name.lower(), part.args.get("kind")) for part in table.expressions]
    if not pairs or not all(name and isinstance(kind, exp.DataType) for name, kind in pairs):
        raise _refuse_schema(python, text)
    columns = {name: kind.sql(DIALECT).lower() for name, kind in pairs if kind is not None}
    if len(columns) < len(pairs):
        raise _refuse_schema(python, text)
    try:
        check_types({python.name: columns})
    except InvalidDefinition as problem:
        raise InvalidDefinition(problem.reason, line=python.line, hint=problem.hint) from problem
    return columns


def _refuse_schema(python: PythonDefinition, text: str) -> InvalidDefinition:
    hint = 'write names and types of Spark, such as "driver BIGINT, fares DECIMAL(10,2)"'
    return InvalidDefinition(f"schema {text[:80]!r} cannot be read", line=python.line, hint=hint)


def build_code(
    statement: Statement, settings: CodeSettings, path: str
) -> tuple[TableCode | None, Mapping[str, str], str]:
    """The Python of a table, its declared columns, and its text. Raises InvalidDefinition for settings that clash."""
    python = statement.python
    written, line = statement.properties.get(SCOPE, ("", statement.line))
    scope = tuple(name.strip().lower() for name in written.split(",") if name.strip())
    if scope and settings.scope:
        raise InvalidDefinition("scope stands in firn-pipeline.yml, too", line=line, hint="keep one of them")
    scope = scope or settings.scope
    if python is None and not settings.transforms:
        if scope or settings.reads is not None:
            text = "scope and reads are for tables that Python computes"
            raise InvalidDefinition(text, line=statement.line, hint="remove them: Firn reads SQL")
        return None, {}, ""
    if python is None and (scope or settings.reads is not None):
        text = "scope and reads are for tables that Python computes from its inputs"
        raise InvalidDefinition(text, line=statement.line, hint="each transform has a scope of its own")
    function = None if python is None else CodeFunction(path=path, name=python.function)
    code = TableCode(function=function, transforms=list(settings.transforms), scope=list(scope))
    if python is None:
        return code, {}, ""
    return code, read_declared(python), python.source


def add_views(definition: Definition, views: Sequence[Any], query: exp.Query) -> Definition:
    """The definition with the views that its code reads, and with `query`, which has no references to views.

    A query that reads a view in Python becomes code, because only a run gets the view's rows.
    """
    code = definition.code or TableCode()
    if code.function is None and not any(view.function is not None for view in views):
        return replace(definition, query=query)
    source = definition.source or definition.query.sql(DIALECT, pretty=True, comments=False)
    entries = [_write_view(view) for view in views]
    return replace(definition, query=query, code=code.model_copy(update={"views": entries}), source=source)


def _write_view(view: Any) -> CodeView:
    if view.function is not None:
        return CodeView(name=view.name, function=view.function)
    query = view.query.copy()
    if view.columns:
        alias = exp.TableAlias(
            this=exp.to_identifier("v"), columns=[exp.to_identifier(name, quoted=True) for name in view.columns]
        )
        query = exp.select(exp.Star()).from_(exp.Subquery(this=query, alias=alias))
    return CodeView(name=view.name, query=query.sql(DIALECT, comments=False))


def fingerprint_code(definition: Definition, texts: Mapping[str, str], query: str) -> str:
    """The digest of a table that Python computes. `query` is the fingerprint, or the text, of the query in it.

    The promised scopes do not count: they do not change the rows.
    """
    code = definition.code
    assert code is not None  # noqa: S101 -- the caller asks for code alone
    functions = [f"{function.path}:{function.name}" for function in code.list_functions()]
    views = [f"{view.name} {view.query}" for view in code.views if view.query is not None]
    modules = fingerprint_modules({path: texts[path] for path in code.modules})
    parts = ("python 1", *functions, *views, modules, query)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
