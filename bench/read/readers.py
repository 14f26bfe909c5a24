"""Engines that read the orders for `bench.read`: each runs the same queries, and tells its own CPU seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.keyed import READS, Stage
from bench.measure import Cost, Stopwatch
from bench.orders import NAMES
from bench.running import RunningServer
from tests.integration.engines.duck import DUCKDB, extensions
from tests.integration.engines.trino import JAVA, LOCAL_FILES, Trino, running_trino

Rows = list[tuple[object, ...]]
_DUCKDB_READS = {
    **READS,
    "scan": f"SELECT count(*), bit_xor(hash({', '.join(NAMES)})) FROM {{table}}",
    # Its Python needs one more package for instants.
    "lookup": READS["lookup"].replace("*", "* REPLACE (epoch_us(ts) AS ts)"),
}
_HASHES = " + ".join(
    f"from_big_endian_64(xxhash64(CAST(CAST({name} AS VARCHAR) AS VARBINARY))) % 1000003" for name in NAMES
)
_TRINO_READS = {**READS, "scan": f"SELECT count(*), sum({_HASHES}) FROM {{table}}"}
_DUCKDB_PROGRAM = """
import json, sys
import duckdb

connection = duckdb.connect()
connection.execute("SET enable_progress_bar = false")  # it would be printed between the answers
for extension in sys.argv[1:]:
    connection.execute(f"LOAD '{extension}'")
for line in sys.stdin:
    print(json.dumps(connection.execute(json.loads(line)).fetchall(), default=str), flush=True)
"""


class Reader(Protocol):
    """One engine."""

    @property
    def name(self) -> str:
        """The engine."""

    @property
    def forms(self) -> tuple[str, ...]:
        """What it reads: base alone, the image, and the SQL view where the engine knows its SQL."""

    def read(self, query: str, table: str, form: str) -> tuple[Cost, Rows]:
        """Run one of READS over a form of a table of `lake`: what the engine spent, and the sorted rows."""


@dataclass(frozen=True)
class SparkReader:
    """The Spark of the stage."""

    stage: Stage
    name: str = "spark"
    forms: tuple[str, ...] = ("base", "image", "view")

    def read(self, query: str, table: str, form: str) -> tuple[Cost, Rows]:
        """See Reader."""
        return self.stage.read(query, {"base": f"{table}.base", "image": table, "view": f"{table}.merged"}[form])


@dataclass(frozen=True)
class DuckDBReader:
    """DuckDB in a process of its own, which loads the table from the catalog for each query."""

    process: subprocess.Popen[str]
    name: str = "duckdb"
    forms: tuple[str, ...] = ("base", "image")

    def read(self, query: str, table: str, form: str) -> tuple[Cost, Rows]:
        """See Reader."""
        statement = _DUCKDB_READS[query].format(table=_quote(table, form))
        cost, rows = Stopwatch([self.process.pid]).cost(lambda: self.run(statement))
        return cost, sorted(tuple(row) for row in rows)

    def run(self, statement: str) -> list[list[object]]:
        """The rows of a statement; RuntimeError with the end of DuckDB's words when it fails."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(statement) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"DuckDB ended at: {statement}")
        rows: list[list[object]] = json.loads(line)
        return rows


@dataclass(frozen=True)
class TrinoReader:
    """One Trino on this machine."""

    trino: Trino
    name: str = "trino"
    forms: tuple[str, ...] = ("base", "image")

    def read(self, query: str, table: str, form: str) -> tuple[Cost, Rows]:
        """See Reader."""
        statement = _TRINO_READS[query].format(table=_quote(table, form))
        cost, rows = Stopwatch([self.trino.pid]).cost(lambda: self.trino.rows(statement))
        return cost, sorted(tuple(row) for row in rows)


def _quote(table: str, form: str) -> str:
    """The name that DuckDB and Trino have for a table of `lake`, or for its base store."""
    namespace, _, name = table.rpartition(".")
    return f'lake."{namespace}.{name}".base' if form == "base" else f"lake.{namespace}.{name}"


def is_installed(engine: str) -> bool:
    """Whether `make engines` has installed it; Spark is always there."""
    return {"duckdb": DUCKDB.is_dir(), "trino": JAVA.is_file()}.get(engine, True)


@contextmanager
def start_readers(stage: Stage, engines: list[str], scratch: Path) -> Iterator[list[Reader]]:
    """The engines, ready to read the stage's catalog."""
    with ExitStack() as stack:
        readers: list[Reader] = []
        for engine in engines:
            if engine == "spark":
                readers.append(SparkReader(stage))
            elif engine == "duckdb":
                readers.append(stack.enter_context(_duckdb(stage.server)))
            else:
                readers.append(stack.enter_context(_trino(stage.server, scratch / "trino")))
        yield readers


@contextmanager
def _duckdb(server: RunningServer) -> Iterator[DuckDBReader]:
    command = [sys.executable, "-c", _DUCKDB_PROGRAM, *extensions()]
    environment = {**os.environ, "PYTHONPATH": str(DUCKDB)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        reader = DuckDBReader(process)
        reader.run(
            f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '{server.url}/iceberg', AUTHORIZATION_TYPE 'none', "
            "SUPPORT_NESTED_NAMESPACES true)"
        )
        yield reader
        assert process.stdin is not None
        process.stdin.close()


@contextmanager
def _trino(server: RunningServer, directory: Path) -> Iterator[TrinoReader]:
    directory.mkdir()
    with running_trino(directory) as trino:
        trino.add_catalog("lake", _describe_catalog(server))
        yield TrinoReader(trino)


def _describe_catalog(server: RunningServer) -> Mapping[str, str]:
    rest: dict[str, Any] = {"uri": f"{server.url}/iceberg", "warehouse": "lake", "nested-namespace-enabled": "true"}
    return {
        "connector.name": "iceberg",
        "iceberg.catalog.type": "rest",
        **LOCAL_FILES,
        **{f"iceberg.rest-catalog.{key}": value for key, value in rest.items()},
    }
