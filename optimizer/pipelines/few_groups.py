"""Adds the changes of few groups to the table's rows in this process, with the SQL of the plan.

DuckDB answers it, as it does in the tests of the plans: docs/protocols.md, rule 8.29. Values never leave the types that
both engines have alike, because the plan allows no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

import duckdb
import pyarrow as pa
import sqlglot

_CONFIGURATION: dict[str, str | bool | int | float | list[str]] = {
    "threads": "1",
    "memory_limit": "256MB",
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


def answer_few(sql: str, relations: Mapping[str, pa.Table]) -> pa.Table:
    """The answer to SQL of Spark over a few rows. Raises duckdb.Error for what DuckDB computes in another way."""
    text = sqlglot.transpile(sql, read="spark", write="duckdb")[0]
    with closing(duckdb.connect(":memory:", config=_CONFIGURATION)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, rows in relations.items():
            connection.register(name, rows)
        return connection.execute(text).to_arrow_table()
