"""A real server with Spark, and the client as users install it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copy

import pytest

from tests.integration.schedulers.lake import ScheduledPipeline
from tests.integration.schedulers.scheduler import PROGRAMS, Scheduler, build_client
from tests.spark_fixtures import RunningServer, running_server


@pytest.fixture(scope="session")
def client_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_client(tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="session")
def airflow(client_site: Path, tmp_path_factory: pytest.TempPathFactory) -> Scheduler:
    home = tmp_path_factory.mktemp("airflow")
    (home / "dags").mkdir()
    copy(PROGRAMS / "airflow_dags.py", home / "dags" / "airflow_dags.py")
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "PIPELINE": "orders_0",
    }
    scheduler = Scheduler("airflow", client_site, home, settings)
    migrated = scheduler.run("-m", "airflow", "db", "migrate")
    assert migrated.returncode == 0, migrated.stderr[-3000:]
    return scheduler


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("firn") / "data") as running:
        yield running


@pytest.fixture
def pipeline(server: RunningServer, tmp_path: Path) -> ScheduledPipeline:
    return ScheduledPipeline(server, tmp_path)
