"""The functions of the instant engine that the console completes are those of DuckDB that queries may call."""

from __future__ import annotations

import duckdb
import pytest

from catalog.errors import Invalid
from server.service.queries.statement import parse_statement
from tests.sql_functions import list_duckdb_functions, read_console_list


def test_the_console_completes_duckdbs_functions() -> None:
    assert read_console_list("DUCKDB_FUNCTIONS") == list_duckdb_functions(), "run `make sql-functions`"


def test_none_of_them_is_refused_and_those_that_read_files_are_missing() -> None:
    names = {call.partition("(")[0] for call in read_console_list("DUCKDB_FUNCTIONS")}
    assert {"sum", "date_trunc", "list_transform", "unnest", "generate_series"} <= names
    for name in names:
        try:
            parse_statement(f'SELECT "{name}"(1)', most_rows=1)
        except Invalid as refusal:
            assert "is not allowed" not in refusal.message, "it is called in another way"  # noqa: PT017
    with duckdb.connect() as connection:
        everything = {row[0] for row in connection.execute("SELECT function_name FROM duckdb_functions()").fetchall()}
    for name in ("read_csv", "read_text", "parquet_scan", "glob", "current_setting", "query", "duckdb_settings"):
        assert name in everything
        assert name not in names
        with pytest.raises(Invalid):
            parse_statement(f"SELECT {name}('x')", most_rows=1)
