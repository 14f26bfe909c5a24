"""Columns of every type, and upgrades that are refused or fail."""

from __future__ import annotations

from tests.hive_lake import HiveTable

PRIMITIVES = {
    "b": ("BOOLEAN", "true"),
    "ti": ("TINYINT", "CAST(-128 AS TINYINT)"),
    "si": ("SMALLINT", "CAST(32767 AS SMALLINT)"),
    "i": ("INT", "-2147483648"),
    "bi": ("BIGINT", "9223372036854775807"),
    "f": ("FLOAT", "CAST('NaN' AS FLOAT)"),
    "d": ("DOUBLE", "CAST('-0.0' AS DOUBLE)"),
    "d1": ("DECIMAL(9,2)", "1234567.89"),
    "d2": ("DECIMAL(18,0)", "-999999999999999999"),
    "d3": ("DECIMAL(38,18)", "12345678901234567890.123456789012345678"),
    "s": ("STRING", "'ü ☃'"),
    "vc": ("VARCHAR(5)", "'abc'"),
    "bin": ("BINARY", "X'00FF'"),
    "da": ("DATE", "DATE '1582-10-04'"),
    "ts": ("TIMESTAMP", "TIMESTAMP '1969-12-31 23:59:59.999999'"),
}
NESTED = {
    "st": (
        "STRUCT<a: INT, b: STRUCT<c: STRING, d: ARRAY<INT>>>",
        "named_struct('a', 1, 'b', named_struct('c', 'x', 'd', array(1, NULL)))",
    ),
    "ar": ("ARRAY<STRUCT<x: DATE, y: DECIMAL(10,3)>>", "array(named_struct('x', DATE '2026-01-01', 'y', 1.5))"),
    "ma": ("MAP<STRING, ARRAY<BIGINT>>", "map('k', array(1, 2))"),
}


def refused_or_failed(table: HiveTable, *key: str) -> str:
    """Why an upgrade was not begun, or did not end well."""
    answer = table.side.server.http.post(
        f"/api/v1/catalogs/lake/hive/{table.name}/upgrade", json={"primary_key": list(key)}
    )
    if not answer.is_success:
        return str(answer.json()["error"]["message"])
    ended = table.ended(answer.json())
    assert ended["status"] == "failed"
    return str(ended["error"])
