"""DuckDB, which knows nothing of Firn but its Iceberg REST catalog. It runs in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HOME = Path(sys.prefix) / "duckdb"
"""Where `make demo` installs DuckDB and the extensions that it needs for Iceberg."""
_PROGRAM = """
import json, sys
import duckdb

connection = duckdb.connect()
for statement in json.load(sys.stdin):
    rows = connection.execute(statement).fetchall()
print(json.dumps(rows, default=str))
"""


def query(url: str, statement: str) -> list[list[Any]]:
    """Run a query on the server's catalog `lake`. FileNotFoundError without DuckDB, ChildProcessError when it fails."""
    if not HOME.is_dir():
        raise FileNotFoundError("DuckDB is not installed: `make demo` installs it")
    files = {path.name.partition(".")[0]: path for path in HOME.glob("*/extensions/*/*.duckdb_extension")}
    statements = [
        *(f"LOAD '{files[name]}'" for name in ("httpfs", "avro", "iceberg")),
        f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '{url}/iceberg', AUTHORIZATION_TYPE 'none')",
        statement,
    ]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        input=json.dumps(statements),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(HOME)},
    )
    if done.returncode:
        raise ChildProcessError(f"DuckDB failed: {done.stderr.strip().rpartition(chr(10))[2]}")
    rows: list[list[Any]] = json.loads(done.stdout)
    return rows
