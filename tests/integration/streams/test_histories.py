"""Random histories of drains and sinks under faults: the log equals the rows, the counts and the sums of its tables.

A red run prints its seed and its steps; HISTORY_SEED repeats it. CI takes the same steps each time, `make soak` goes on
for SOAK_SECONDS with new ones.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from firn.embedded.kafka import EmbeddedKafka
from firn.spark.sessions import catalog_conf
from tests.integration.streams.faults import DATABASE_FAULTS, NETWORK_FAULTS, MortalServer, Network
from tests.integration.streams.history import StreamHistory
from tests.integration.streams.topics import Topic
from tests.lossy_proxy import meddling_proxy
from tests.postgres_fixtures import postgres_server

SOAK_SECONDS = float(os.environ.get("SOAK_SECONDS", "0"))
SEED = int(os.environ.get("HISTORY_SEED", "0")) or (random.SystemRandom().getrandbits(32) if SOAK_SECONDS else 1)
STEPS = 40 if SOAK_SECONDS else 12
pytestmark = [pytest.mark.spark, pytest.mark.model, pytest.mark.timeout(900 + SOAK_SECONDS)]


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[MortalServer]:
    server = MortalServer(tmp_path / "firn")
    with server.ends:
        yield server


@pytest.mark.postgres
def test_the_log_equals_its_tables_when_the_database_dies(
    kafka: EmbeddedKafka, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """kill -9 of PostgreSQL before and while it takes a commit of a drain or of a query; then it starts again."""
    with postgres_server(survives_crashes=True) as database:
        mortal = MortalServer(tmp_path / "firn", database)
        network = Network(mortal)
        with mortal.ends:
            server = mortal.start()
            server.spark.sql("CREATE NAMESPACE lake.db")
            with meddling_proxy(server.url, network.meddle) as proxy:
                for key, value in catalog_conf(proxy.url, "lake", name="lossy").items():
                    server.spark.conf.set(key, value)
                history = StreamHistory(
                    server, kafka, new_topic(), network, tmp_path / "database", SEED, [*DATABASE_FAULTS]
                )
                try:
                    met = history.take_each()
                except BaseException:
                    print(f"HISTORY_SEED={SEED}\n" + "\n".join(history.steps))  # noqa: T201 -- pytest shows it
                    raise
    assert met.total() == 2 * len(DATABASE_FAULTS)
    assert network.crashes, "nothing has died"


def test_the_log_equals_its_tables_whatever_dies(
    mortal: MortalServer,
    kafka: EmbeddedKafka,
    new_topic: Callable[..., Topic],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    network, met, seed, deadline = Network(mortal), Counter[str](), SEED, time.monotonic() + SOAK_SECONDS
    server = mortal.start()
    server.spark.sql("CREATE NAMESPACE lake.db")
    with meddling_proxy(server.url, network.meddle) as proxy:
        for key, value in catalog_conf(proxy.url, "lake", name="lossy").items():
            server.spark.conf.set(key, value)
        while not met or time.monotonic() < deadline:
            history = StreamHistory(server, kafka, new_topic(), network, tmp_path / str(seed), seed, NETWORK_FAULTS)
            try:
                met += history.take(STEPS)
            except BaseException:
                steps = "\n".join(history.steps)
                print(f"HISTORY_SEED={seed}\n{steps}")  # noqa: T201 -- pytest shows it with the failure
                raise
            seed += 1
    if SOAK_SECONDS:
        with capsys.disabled():
            print(f"\n{met.total()} steps: {dict(met.most_common())}")  # noqa: T201 -- whoever soaks wants to know
    assert met.total() >= STEPS
