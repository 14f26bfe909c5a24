"""DuckDB with its own Iceberg extension, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DUCKDB = Path(sys.prefix) / "duckdb"
PROGRAM = """
import json, sys
import duckdb

connection = duckdb.connect()
for extension in sys.argv[1:]:
    connection.execute(f"LOAD '{extension}'")
answers = []
for statement in json.load(sys.stdin):
    try:
        answers.append(connection.execute(statement).fetchall())
    except duckdb.Error as error:
        answers.append(str(error))
print(json.dumps(answers, default=str))
"""


def extensions() -> list[str]:
    """The files of what Iceberg needs, in the order in which they are loaded."""
    extension_files = {
        path.name.partition(".")[0]: str(path) for path in DUCKDB.glob("*/extensions/*/*.duckdb_extension")
    }
    return [extension_files[name] for name in ("httpfs", "avro", "iceberg")]


def duckdb(*statements: str) -> list[Any]:
    """Run statements in one connection; of each its rows, or why it was refused."""
    if not DUCKDB.is_dir():
        pytest.fail("DuckDB is not installed: make engines")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *extensions()],
        input=json.dumps(statements),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(DUCKDB)},
        timeout=240,
    )
    answers: list[Any] = json.loads(done.stdout)
    return answers
