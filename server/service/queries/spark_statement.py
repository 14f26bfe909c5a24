"""Checks a statement of the engine Spark, and names its tables.

The optimizer checks again: it removes functions from the query's session, and looks at the plan before it runs it
(optimizer/spark_queries).
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from catalog.errors import Invalid
from firn.protocol.query_leases import ExplainMode
from server.service.queries.parsing import SqlRules, Statement, check_values, replace_tables

DIALECT = "spark"
ROW_FUNCTIONS = frozenset(
    {
        "explode",
        "explode_outer",
        "inline",
        "inline_outer",
        "json_tuple",
        "posexplode",
        "posexplode_outer",
        "range",
        "stack",
    }
)
DENIED = re.compile(
    r"""(try_)?reflect|java_method|identifier|(from|to|schema_of)_(avro|protobuf|xml)|xpath(_.*)?|input_file_.*
    |version|current_(catalog|database|schema)|python_.*|sql_keywords|collations
    |read_files|http_.*|ai_.*""",
    re.VERBOSE | re.IGNORECASE,
)
"""Functions that call Java, open what an argument names, or tell of the optimizer."""
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+((EXTENDED|FORMATTED|COST|CODEGEN)\s+)?", re.IGNORECASE)
_BY_HAND = "For anything else run Spark on your machine: `firn sql --engine local-spark`."
_RULES = SqlRules(
    dialect=DIALECT,
    row_functions=ROW_FUNCTIONS,
    denied=DENIED,
    other_statements=f"The engine Spark runs one SELECT, SHOW or DESCRIBE. {_BY_HAND}",
    simplify="Simplify it, or write it in another way.",
    split="Split the statement.",
    wrong_quote='"',
    quote_hint='Quote names with `, not with ".',
)


@lru_cache(maxsize=256)
def parse_spark_statement(text: str) -> Statement:
    """Check a statement in Spark's SQL. Raises Invalid for everything but one SELECT without forbidden parts."""
    explain = _EXPLAIN.match(text)
    statement = text[explain.end() :] if explain else text
    mode = (explain[2] or "formatted").lower() if explain else "formatted"
    if mode not in tuple(ExplainMode):
        raise Invalid(
            f"EXPLAIN {mode.upper()} is not supported", hint="Write EXPLAIN, EXPLAIN EXTENDED or EXPLAIN COST."
        )
    tokens = _RULES.tokenize(statement)
    tree = _RULES.parse(statement)
    _refuse_scripts(tokens)
    _RULES.check_tree(tree)
    _check_spark_tree(tree)
    tables = replace_tables(tree)
    sql = tree.sql(dialect=DIALECT, comments=False)
    _RULES.check_written(sql, len(tables))
    _refuse_scripts(_RULES.tokenize(sql))
    check_values(DIALECT, tokens, " ".join([sql, *(f"{table.version} {table.time}" for table in tables)]))
    return Statement(sql, tables, None, explain is not None, ExplainMode(mode))


def _refuse_scripts(tokens: list[Token]) -> None:
    """Refuse `TRANSFORM … USING 'command'`, which starts a process, and `${…}`, which Spark replaces."""
    for token, following in pairwise(tokens):
        if token.text.upper() == "USING" and following.token_type is not TokenType.L_PAREN:
            raise Invalid("USING can only name the columns of a join", hint=_BY_HAND)
    for token in tokens:
        if "${" in token.text:
            raise Invalid("the statement has a variable, ${…}", hint="Write the value.")


def _check_spark_tree(tree: exp.Expr) -> None:
    for node in list(tree.walk()):
        if isinstance(node, exp.Hint):
            node.pop()  # hints name tables, and decide nothing about the result
        elif isinstance(node, (exp.QueryTransform, exp.SessionParameter)):
            raise Invalid(f"{node.key.upper()} cannot be a part of a query", hint=_BY_HAND)
        elif isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
            raise Invalid(
                "a function cannot be named with a namespace", hint="Queries call the functions of Spark alone."
            )
