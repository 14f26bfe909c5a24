"""Two servers, one on each database, and the engines that use them as their only catalog."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.integration.engines.flink import Flink, flink_beside
from tests.integration.engines.lake import IS_SOAK, LATEST_ON_POSTGRES, Lake
from tests.integration.engines.spark import LATEST, OLDER, Spark, spark_beside, spark_here
from tests.integration.engines.trino import Trino, running_trino
from tests.postgres_fixtures import postgres_server
from tests.spark_fixtures import ServerProcess, server_process, wait_for_images

DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
PAIRS = [LATEST_ON_POSTGRES, pytest.param((OLDER, "sqlite"), id=f"{OLDER}-sqlite")]
"""Each Spark with a database of its own: a statement runs in both Sparks and on both databases, once each.

Two checks are left to `make soak`: whether requests that only Spark 3.5 sends do the same on PostgreSQL, and whether
those of Spark 4.1 do on SQLite. The second pair runs in most other tests of the second tier, too.
"""
if IS_SOAK:
    PAIRS += [
        pytest.param((OLDER, "postgres"), marks=[pytest.mark.postgres, pytest.mark.model], id=f"{OLDER}-postgres"),
        pytest.param((LATEST, "sqlite"), marks=pytest.mark.model, id=f"{LATEST}-sqlite"),
    ]
_numbers = count(1)


@pytest.fixture(scope="package")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("sqlite") / "data") as server:
        wait_for_images(server.http)
        yield server


@pytest.fixture(scope="package")
def on_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with postgres_server() as postgres:
        url = postgres.url(postgres.new_database())
        with server_process(tmp_path_factory.mktemp("postgres") / "data", FIRN_DATABASE_URL=url) as server:
            wait_for_images(server.http)
            yield server


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def server(request: pytest.FixtureRequest, database: str) -> ServerProcess:
    server: ServerProcess = request.getfixturevalue(f"on_{database}")
    return server


@pytest.fixture(scope="package")
def spark_latest() -> Spark:
    return spark_here()


@pytest.fixture(scope="package")
def spark_older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    with spark_beside(tmp_path_factory.mktemp("spark") / "spark-3.5.log") as spark:
        yield spark


@pytest.fixture(scope="package")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    with flink_beside(tmp_path_factory.mktemp("flink")) as running:
        yield running


@pytest.fixture(params=[LATEST, OLDER])
def spark(request: pytest.FixtureRequest) -> Spark:
    spark: Spark = request.getfixturevalue("spark_latest" if request.param == LATEST else "spark_older")
    return spark


@pytest.fixture(params=PAIRS)
def lake(request: pytest.FixtureRequest) -> Lake:
    """A namespace of the test's own; the session knows each server's catalog by the name of its database."""
    line, database = request.param
    spark: Spark = request.getfixturevalue("spark_latest" if line == LATEST else "spark_older")
    server: ServerProcess = request.getfixturevalue(f"on_{database}")
    spark.know(server.url, database)
    lake = Lake(spark, server, catalog=database, namespace=f"n{next(_numbers)}")
    lake.sql(f"CREATE NAMESPACE {lake}")
    return lake


@pytest.fixture(scope="package")
def trino(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trino]:
    with running_trino(tmp_path_factory.mktemp("trino")) as running:
        yield running
