"""The definitions of a Python file, read without running it: its syntax tree says what its decorators define.

Functions of `pyspark.pipelines` define tables and views: `@dp.materialized_view` and `@dp.temporary_view`. Firn has to
know them when the folder is put, and the server never runs Python, so names and options have to be literals.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from firn.pipelines.errors import InvalidDefinition, Place
from firn.pipelines.python_reads import Reads, find_reads

_MODULE = "pyspark.pipelines"
TABLE, VIEW = "materialized_view", "temporary_view"
_IN_SQL = "write CREATE STREAMING TABLE and CREATE FLOW in a SQL file"
_REFUSED = {
    "table": ("Firn reads no streaming tables from Python", _IN_SQL),
    "append_flow": ("Firn reads no flows from Python", _IN_SQL),
    "create_streaming_table": ("Firn reads no streaming tables from Python", _IN_SQL),
    "create_sink": ("Firn has no sinks", "read the table from where its rows are needed"),
}
_OPTIONS = {
    TABLE: ("name", "comment", "spark_conf", "table_properties", "partition_cols", "cluster_by", "schema", "format"),
    VIEW: ("name", "comment", "spark_conf"),
}
_STATIC = "Firn reads definitions without running them: write a literal"
_MOST_DEPTH = 200


@dataclass(frozen=True)
class PythonDefinition:
    """A table or view that a function defines. `options` are the literals of its decorator."""

    kind: str
    name: str
    function: str
    line: int
    reads: Reads
    source: str
    options: Mapping[str, Any] = field(default_factory=dict)


def read_python(text: str) -> list[PythonDefinition]:
    """The definitions of a file. Raises InvalidDefinition with the line of what Firn cannot know without running it."""
    tree = parse_python(text)
    names = _find_names(tree)
    _refuse_hidden(tree, names)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    return [
        _read_function(text, functions, function, decorator, kind)
        for function in functions.values()
        for decorator in function.decorator_list
        if (kind := _name_call(decorator, names)) is not None
    ]


def parse_python(text: str) -> ast.Module:
    """The tree of a file. Raises InvalidDefinition for a text that is no Python."""
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise InvalidDefinition(f"this is no Python: {error.msg}", line=error.lineno, column=error.offset) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise InvalidDefinition(f"this is no Python: {str(error)[:200] or 'it nests too deeply'}") from error


def has_function(tree: ast.Module, name: str) -> bool:
    """Whether a file defines a function of this name at its top level."""
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body)


@dataclass(frozen=True)
class _Names:
    """What a file calls the module, and its functions, after its imports."""

    modules: frozenset[str]
    functions: Mapping[str, str]


def _find_names(tree: ast.Module) -> _Names:
    modules, functions = set[str](), dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name for alias in node.names if alias.name == _MODULE}
        elif isinstance(node, ast.ImportFrom) and node.module == "pyspark":
            modules |= {alias.asname or alias.name for alias in node.names if alias.name == "pipelines"}
        elif isinstance(node, ast.ImportFrom) and node.module == _MODULE:
            functions |= {alias.asname or alias.name: alias.name for alias in node.names}
    return _Names(frozenset(modules), functions)


def _name_call(node: ast.expr, names: _Names) -> str | None:
    """The function of `pyspark.pipelines` that a decorator or call names; None for another one."""
    target = node.func if isinstance(node, ast.Call) else node
    if isinstance(target, ast.Name):
        return names.functions.get(target.id)
    if isinstance(target, ast.Attribute) and _write_dotted(target.value) in names.modules:
        return target.attr
    return None


def _write_dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < _MOST_DEPTH:
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _refuse_hidden(tree: ast.Module, names: _Names) -> None:
    """Refuse definitions that only a run would make: those in loops, conditions and other functions."""
    seen = {
        id(decorator) for node in tree.body if isinstance(node, ast.FunctionDef) for decorator in node.decorator_list
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        calls = [node] if isinstance(node, ast.Call) else node.decorator_list
        for call in calls:
            kind = _name_call(call, names)
            if kind in _REFUSED:
                text, hint = _REFUSED[kind]
                raise InvalidDefinition(text, line=call.lineno, hint=hint)
            if kind in _OPTIONS and id(call) not in seen:
                hint = "define a function for each table at the top level of the file"
                raise InvalidDefinition("Firn reads definitions without running them", line=call.lineno, hint=hint)


def _read_function(
    text: str, functions: Mapping[str, ast.FunctionDef], function: ast.FunctionDef, decorator: ast.expr, kind: str
) -> PythonDefinition:
    if kind not in _OPTIONS:
        raise InvalidDefinition(f"Firn does not know {kind} of pyspark.pipelines", line=decorator.lineno)
    if len(function.decorator_list) > 1:
        raise InvalidDefinition(f"{function.name} has several decorators", line=function.lineno, hint="keep one")
    options = dict(_read_options(decorator, kind)) if isinstance(decorator, ast.Call) else {}
    _check_arguments(function)
    return PythonDefinition(
        kind=kind,
        name=str(options.get("name") or function.name),
        function=function.name,
        line=decorator.lineno,
        reads=find_reads(functions, function.name),
        source=ast.get_source_segment(text, function) or "",
        options=options,
    )


def _check_arguments(function: ast.FunctionDef) -> None:
    arguments = function.args
    count = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    if count > 0 or any(default is None for default in arguments.kw_defaults):
        raise InvalidDefinition(
            f"{function.name} has arguments, and nobody gives them", line=function.lineno, hint="remove them"
        )


def _read_options(call: ast.Call, kind: str) -> Iterator[tuple[str, Any]]:
    if call.args:
        raise InvalidDefinition(f"{kind} takes named arguments alone", line=call.lineno)
    for keyword in call.keywords:
        if keyword.arg not in _OPTIONS[kind]:
            _refuse(
                keyword.value, f"{kind} has no argument {keyword.arg or '**'}", f"it has {', '.join(_OPTIONS[kind])}"
            )
        try:
            value = ast.literal_eval(keyword.value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            _refuse(keyword.value, f"{keyword.arg} is no literal", _STATIC)
        _check_option(keyword, value)
        if value is not None:
            yield str(keyword.arg), value


def _check_option(keyword: ast.keyword, value: Any) -> None:
    name = keyword.arg
    if name in ("name", "comment", "schema", "format") and not isinstance(value, str | None):
        _refuse(keyword.value, f"{name} is no text", _STATIC)
    is_map = isinstance(value, dict) and all(isinstance(part, str) for pair in value.items() for part in pair)
    if name in ("table_properties", "spark_conf") and not (value is None or is_map):
        _refuse(keyword.value, f"{name} is no mapping of texts", _STATIC)
    is_list = isinstance(value, list) and all(isinstance(part, str) for part in value)
    if name in ("partition_cols", "cluster_by") and not (value is None or is_list):
        _refuse(keyword.value, f"{name} is no list of texts", _STATIC)
    if name == "spark_conf" and value:
        _refuse(keyword.value, "Firn sets no spark_conf for a table", "remove it, or set it for the optimizer")


def _refuse(node: ast.expr, text: str, hint: str) -> NoReturn:
    raise InvalidDefinition.at(Place(node.lineno, node.col_offset + 1), text, hint=hint)
