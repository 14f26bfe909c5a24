"""The two lines of Spark that Firn is tried with, each behind the same few verbs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from firn.embedded.jars import Coordinate
from firn.spark.jars import fetch
from firn.spark.sessions import catalog_conf
from tests.integration.engines.child import answer
from tests.spark_fixtures import ICEBERG, shared_spark

LATEST = "4.1"
OLDER = "3.5"
RUNTIME_3_5: Coordinate = ("org.apache.iceberg", "iceberg-spark-runtime-3.5_2.12", "1.12.0")
PYSPARK_3_5 = Path(sys.prefix) / "spark-3.5"
Row = list[Any]


class Refused(Exception):
    """Spark did not do it; in its own words."""


class Spark(ABC):
    """A session of one of the two."""

    version: str
    known: set[str]

    def rows(self, statement: str) -> list[Row]:
        """The rows of a statement, in their order; Refused when it fails."""
        rows: list[Row] = self.ask({"sql": statement})["rows"]
        return rows

    def run(self, code: str) -> Any:
        """Run Python with the session as `spark`; the value of its variable `answer`. Refused when it fails."""
        return self.ask({"python": code})["answer"]

    def know(self, url: str, name: str) -> None:
        """Tell the session, once, of the catalog `lake` of a server by this name."""
        if name not in self.known:
            self.run(f"for key, value in {catalog_conf(url, 'lake', name=name)!r}.items(): spark.conf.set(key, value)")
            self.known.add(name)

    @abstractmethod
    def ask(self, request: Mapping[str, str]) -> dict[str, Any]: ...


@dataclass
class SparkHere(Spark):
    """The one in this environment, in the JVM that all tests share."""

    session: SparkSession
    version: str = LATEST
    known: set[str] = field(default_factory=set)

    def ask(self, request: Mapping[str, str]) -> dict[str, Any]:
        try:
            return answer(self.session, request)
        except (Py4JJavaError, PySparkException) as error:
            raise Refused(str(error)) from error


@dataclass
class SparkBeside(Spark):
    """The older one, in a process of its own."""

    process: subprocess.Popen[str]
    version: str = OLDER
    known: set[str] = field(default_factory=set)

    def ask(self, request: Mapping[str, str]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "Spark 3.5 has ended: its log is spark-3.5.log in pytest's directory"
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise Refused(reply["error"])
        return reply


def spark_here() -> Spark:
    return SparkHere(shared_spark().newSession())


@contextmanager
def spark_beside(log: Path) -> Iterator[Spark]:
    """Start Spark 3.5 and stop it at the end."""
    if not PYSPARK_3_5.is_dir():
        pytest.fail("PySpark 3.5 is not installed: make engines")
    options = {
        **ICEBERG,
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.jars": str(fetch(RUNTIME_3_5)),
    }
    with (
        log.open("w", encoding="utf-8") as output,
        subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("child.py")), json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            env={**os.environ, "PYTHONPATH": str(PYSPARK_3_5), "PYSPARK_PYTHON": sys.executable},
        ) as process,
    ):
        try:
            yield SparkBeside(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)
