"""One broker for the tests of this folder, and a real server with a Spark session that reads topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from firn.drains.engine import Engine
from firn.embedded.kafka import EmbeddedKafka
from firn.embedded.ports import LOOPBACK, free_port
from tests.integration.streams.sign_in import SignIn, build_settings, create_user
from tests.integration.streams.topics import Topic, create_topic
from tests.spark_fixtures import RunningServer, running_server


@pytest.fixture(scope="session")
def sign_in() -> SignIn:
    """How a user signs in to the broker, at a second address."""
    return SignIn(brokers=f"{LOOPBACK}:{free_port()}")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory, sign_in: SignIn) -> Iterator[EmbeddedKafka]:
    """A broker that creates no topics by itself, so that a misspelled name is an error."""
    port, signed = free_port(), int(sign_in.brokers.rpartition(":")[2])
    settings = {"auto.create.topics.enable": "false", **build_settings(port, free_port(), signed)}
    directory = tmp_path_factory.mktemp("kafka") / "data"
    with EmbeddedKafka(directory, port=port, heap_mib=256, settings=settings) as broker:
        create_user(broker.brokers, sign_in)
        yield broker


@pytest.fixture
def new_topic(kafka: EmbeddedKafka) -> Callable[..., Topic]:
    """Creates a topic with 2 partitions, unless the call names another number."""
    return partial(create_topic, kafka.brokers)


@pytest.fixture(params=[Engine.SPARK, Engine.LIGHT])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine of drains."""
    chosen: Engine = request.param
    return chosen


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    # A killed optimizer loses its lease soon, and a slow one does not.
    lease = {"FIRN_LEASE__SECONDS": "30", "FIRN_LEASE__HEARTBEAT_SECONDS": "5"}
    with running_server(tmp_path_factory.mktemp("firn") / "data", **lease) as running:
        running.spark.sql("CREATE NAMESPACE lake.db")
        yield running
