"""The functions that the console completes: those of DuckDB and of Spark that queries may call.

`make sql-functions` writes them after an upgrade of either; tests compare them with the real engines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import duckdb
from pyspark.sql import SparkSession

from optimizer.spark import start
from optimizer.spark_queries.functions import remove_other_functions
from server.service.queries.spark_statement import DENIED as DENIED_IN_SPARK
from server.service.queries.spark_statement import ROW_FUNCTIONS as ROWS_IN_SPARK
from server.service.queries.statement import DENIED as DENIED_IN_DUCKDB
from server.service.queries.statement import ROW_FUNCTIONS as ROWS_IN_DUCKDB

CONSOLE_FILE = Path(__file__).parents[1] / "web" / "src" / "lib" / "sql-function-lists.ts"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_INTERNAL = re.compile(r"(__|icu_|array_cross|variant_typeof|list_.*_internal).*")
_KEYWORDS = frozenset(["and", "between", "case", "exists", "in", "like", "not", "or", "when"])
"""Functions of Spark that are words of its grammar: the editor completes them as keywords."""
_MOST_DETAIL = 60
_LINE = 140
_ENTRY = re.compile(r"'((?:[^'\\]|\\.)*)'")


def list_duckdb_functions() -> list[str]:
    """Each function as `name(arguments)`, by name."""
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT function_name, parameters FROM duckdb_functions()"
            " WHERE function_type IN ('scalar', 'aggregate', 'macro') AND schema_name = 'main'"
            " ORDER BY function_name, len(parameters)"
        ).fetchall()
    arguments: dict[str, str] = dict.fromkeys(sorted(ROWS_IN_DUCKDB), "…")
    for name, parameters in rows:
        is_callable = _NAME.fullmatch(name) and not DENIED_IN_DUCKDB.fullmatch(name) and not _INTERNAL.match(name)
        if is_callable:
            arguments.setdefault(name, ", ".join(parameters))
    return _write_calls(arguments)


def list_spark_functions(spark: SparkSession) -> list[str]:
    """Each function that a query's session has as `name(arguments)`, by name."""
    session = spark.newSession()
    remove_other_functions(session)
    arguments: dict[str, str] = dict.fromkeys(sorted(ROWS_IN_SPARK), "…")
    for row in session.sql("SHOW FUNCTIONS").collect():
        name = str(row[0])
        if _NAME.fullmatch(name) and not DENIED_IN_SPARK.fullmatch(name) and name not in _KEYWORDS:
            arguments[name] = _find_arguments(session, name)
    return _write_calls(arguments)


def _find_arguments(session: SparkSession, name: str) -> str:
    usage = " ".join(row[0] for row in session.sql(f"DESCRIBE FUNCTION `{name}`").collect())
    match = re.search(rf"\b{name}\(([^)]*)\)", usage.partition("Usage:")[2])
    return "…" if match is None else match[1]


def _write_calls(arguments: dict[str, str]) -> list[str]:
    return [f"{name}({' '.join(text.split())[:_MOST_DETAIL]})" for name, text in sorted(arguments.items())]


def write_console_file(duckdb_functions: Iterable[str], spark_functions: Iterable[str]) -> str:
    """The text of the console's file."""
    lists = {"DUCKDB_FUNCTIONS": duckdb_functions, "SPARK_FUNCTIONS": spark_functions}
    parts = [f"export const {name}: readonly string[] = [\n{_write_lines(texts)}];\n" for name, texts in lists.items()]
    return "// Written by `make sql-functions`: the functions that queries may call.\n" + "\n".join(parts)


def _write_lines(texts: Iterable[str]) -> str:
    lines, line = [], ""
    for text in texts:
        entry = "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "', "
        if len(line) + len(entry) > _LINE:
            lines.append(line)
            line = ""
        line += entry
    return "".join(f"  {each.rstrip()}\n" for each in (*lines, line) if each)


def read_console_list(name: str) -> list[str]:
    """One list of the console's file."""
    text = CONSOLE_FILE.read_text("utf-8")
    body = text.partition(f"export const {name}: readonly string[] = [\n")[2].partition("\n];")[0]
    return [re.sub(r"\\(.)", r"\1", entry) for entry in _ENTRY.findall(body)]


def main() -> None:
    """Write the file."""
    spark = start(master="local[1]", app="functions", memory="700m")
    CONSOLE_FILE.write_text(write_console_file(list_duckdb_functions(), list_spark_functions(spark)), "utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
