"""kill -9 of the process of a drain or a sink: the next one goes on from the table's position, without help."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import firn.spark
from tests.integration.streams.queries import Pipeline, numbers
from tests.integration.streams.topics import Topic
from tests.spark_fixtures import RunningServer, interpret_queries

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
RECORDS = 60
DEATHS = [("after LogDrain.append 2", 40), ("before LightDrain.append 2", 20), ("after LightDrain.append 2", 40)]
"""When the process dies, and how many records the table has by then."""
if "SOAK_SECONDS" in os.environ:
    DEATHS += [
        ("before LogDrain.append 1", 0),
        ("after LightDrain.read 1", 0),
        ("after LightDrain.write 2", 20),
        ("after LogDrain._order 2", 20),
        ("after StreamWriter.register 1", 0),
        ("before StreamWriter.commit 2", 20),
        ("after StreamWriter.commit 2", 40),
    ]


@pytest.mark.parametrize(("moment", "written"), DEATHS)
def test_the_next_process_goes_on_from_the_tables_position(
    server: RunningServer, new_topic: Callable[..., Topic], tmp_path: Path, moment: str, written: int
) -> None:
    topic, is_drain = new_topic(), "Drain." in moment
    log = {"firn.log.topic": topic.name, "firn.log.brokers": topic.brokers, "firn.log.format": "firn-json"}
    properties = {**log, "firn.log.max-batch-rows": "20"} if is_drain else {}
    line = Pipeline(server.spark, topic, tmp_path / "checkpoint", keyed=is_drain, properties=properties).create()
    topic.send(numbers(0, RECORDS), commit=True)
    query = [] if is_drain else [topic.name, topic.brokers, str(line.checkpoint)]
    run = [sys.executable, "-m", "tests.integration.streams.mortal", server.url, moment, line.name, *query]
    environment = {**os.environ, **interpret_queries(tmp_path)}
    with (tmp_path / "mortal.log").open("w", encoding="utf-8") as output:
        died = subprocess.run(run, env=environment, stdout=output, stderr=output, check=False, timeout=600)
    assert died.returncode == -signal.SIGKILL, (tmp_path / "mortal.log").read_text(encoding="utf-8")[-2000:]
    assert line.written()[0] == written
    if is_drain:
        firn.spark.drain(line.table, server.spark)
    else:
        assert line.run() is None
    assert line.written() == (RECORDS, sum(range(RECORDS)))
