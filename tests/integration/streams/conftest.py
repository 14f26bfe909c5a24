"""One broker for the tests of this folder, and a real server with a Spark session that reads topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from firn.embedded.kafka import EmbeddedKafka
from tests.integration.streams.topics import Topic, create_topic
from tests.spark_fixtures import RunningServer, running_server


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A broker that creates no topics by itself, so that a misspelled name is an error."""
    settings = {"auto.create.topics.enable": "false"}
    directory = tmp_path_factory.mktemp("kafka") / "data"
    with EmbeddedKafka(directory, port=0, heap_mib=256, settings=settings) as broker:
        yield broker


@pytest.fixture
def new_topic(kafka: EmbeddedKafka) -> Callable[..., Topic]:
    """Creates a topic with 2 partitions, unless the call names another number."""
    return partial(create_topic, kafka.brokers)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    # A killed optimizer loses its lease soon, and a slow one does not.
    lease = {"FIRN_LEASE__SECONDS": "30", "FIRN_LEASE__HEARTBEAT_SECONDS": "5"}
    with running_server(tmp_path_factory.mktemp("firn") / "data", **lease) as running:
        running.spark.sql("CREATE NAMESPACE lake.db")
        yield running
