"""The pages of docs/, run as they stand there: SQL, Python, and the refusals that they promise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.docs.blocks import ADDRESS, DOCS, QUICKSTART, blocks, documented_options
from tests.spark_fixtures import RunningServer, running_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("docs") / "data") as running:
        yield running


@pytest.fixture
def plain(server: RunningServer) -> SparkSession:
    """A session that knows what the quickstart says and no more; its extensions it has from its start."""
    session = server.spark.newSession()
    for key, value in documented_options().items():
        if key != "spark.sql.extensions":
            session.conf.set(key, value.replace(ADDRESS, server.url))
    # To a reader of the page it is the only session; here others share its JVM, and PySpark's active one is the last
    # that made a frame of Python's data.
    session.createDataFrame([], "nothing int")
    return session


def run_page(path: Path, server: RunningServer, spark: SparkSession) -> dict[str, Any]:
    """Run a page's blocks in order; a `text` block is what the one before it shows. Gives Python's names."""
    names: dict[str, Any] = {}
    shown = ""
    for block in blocks(path.read_text(encoding="utf-8").replace(ADDRESS, server.url)):
        where = f"{path}:{block.line}"
        statements = [part for part in block.text.split(";") if part.strip()]
        match block.language:
            case "sql":
                for statement in statements:
                    shown = spark.sql(statement)._jdf.showString(20, 20, False)
            case "sql refused":
                with pytest.raises((Py4JJavaError, PySparkException)) as refused:
                    spark.sql(statements[0]).collect()
                shown = str(refused.value)
            case "text":
                assert block.text.strip() in shown, where
            case "python":
                exec(compile(block.text, where, "exec"), names)
            case _:
                assert block.language == "bash", where
    return names


@pytest.mark.spark
def test_every_block_of_the_quickstart_does_what_the_page_says(server: RunningServer, plain: SparkSession) -> None:
    assert run_page(QUICKSTART, server, plain)["job"].kind == "merge"


@pytest.mark.spark
def test_keyed_tables_allow_and_refuse_what_their_page_says(server: RunningServer, plain: SparkSession) -> None:
    run_page(DOCS / "keyed-tables.md", server, plain)
