"""Parts of SQL that a definition must not have: an optimizer would run a program, or read a file by its path.

Everyone who may write a table may define one by SQL. Spark runs this SQL with the rights of the optimizer's process.
"""

from __future__ import annotations

from typing import Final, NoReturn

from sqlglot import exp

from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.functions import function_name
from firn.pipelines.parsing import find_place

PROGRAMS: Final = frozenset({"java_method", "reflect", "try_reflect"})
"""They call methods of Java classes."""
READS_FILES: Final = frozenset({"from_protobuf", "to_protobuf"})
"""They read a descriptor by its path."""
ROW_FUNCTIONS: Final = frozenset(
    """
    explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer range stack variant_explode
    variant_explode_outer
    """.split()  # noqa: SIM905 -- a list would take a line for each
)
"""The functions that may stand in FROM: they make rows of their arguments alone."""


def refuse_forbidden(tree: exp.Expr) -> None:
    """Raise InvalidDefinition, with its place, for the first part that runs a program or names a file or a table."""
    for node in tree.walk():
        if isinstance(node, exp.QueryTransform):
            _refuse(node, "TRANSFORM … USING runs a program", "compute it with Spark's functions")
        if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)):
            _check_function(node, function_name(node))
        if isinstance(node, (exp.Table, exp.Lateral)) and isinstance(node.this, (exp.Func, exp.Anonymous)):
            _check_source(node.this)


def _check_function(node: exp.Expr, name: str) -> None:
    if name in PROGRAMS:
        _refuse(node, f"{name.upper()} calls Java code", "compute it with Spark's functions")
    if name in READS_FILES:
        _refuse(node, f"{name.upper()} reads a file", "decode the column before, and write it into a table")


def _check_source(source: exp.Expr) -> None:
    name = function_name(source) if isinstance(source, exp.Anonymous) else source.key.lower()
    _check_function(source, name)
    if name == "identifier":
        _refuse(source, "IDENTIFIER hides the name of a table", "write the name")
    if isinstance(source, exp.Anonymous) and name not in ROW_FUNCTIONS:
        _refuse(source, f"{name.upper()} in FROM is not allowed", "write its rows into a table and read that")


def _refuse(node: exp.Expr, reason: str, hint: str) -> NoReturn:
    raise InvalidDefinition.at(find_place(node), reason, hint=hint)
