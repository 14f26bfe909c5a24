"""The client of Kafka clusters without a cluster: errors and settings. With one: tests/integration/streams."""

from __future__ import annotations

import pytest

from catalog.errors import Unavailable
from catalog.kafka.connection import Connection
from firn.protocol.connections import Mechanism, Security
from server.kafka import clusters
from server.kafka.clusters import ConfluentClusters, build_options

CONNECTION = Connection(name="c", brokers=("127.0.0.1:1", "127.0.0.1:2"))


def test_the_settings_of_the_client() -> None:
    plain = build_options(CONNECTION, None)
    assert plain["bootstrap.servers"] == "127.0.0.1:1,127.0.0.1:2"
    assert "sasl.password" not in plain
    secure = Connection(
        name="s",
        brokers=("kafka:9092",),
        security=Security.SASL_SSL,
        mechanism=Mechanism.SCRAM_SHA_256,
        username="firn",
        ca="-----BEGIN CERTIFICATE-----",
    )
    options = build_options(secure, "secret")
    assert (options["security.protocol"], options["sasl.mechanism"]) == ("SASL_SSL", "SCRAM-SHA-256")
    assert (options["sasl.password"], options["ssl.ca.pem"]) == ("secret", "-----BEGIN CERTIFICATE-----")


def test_without_the_client_the_server_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "HAS_CLIENT", False)
    with pytest.raises(Unavailable, match="the server has no client of Kafka") as refused:
        ConfluentClusters().summarize(CONNECTION, None)
    assert refused.value.hint is not None
    assert "pip install 'firn[kafka]'" in refused.value.hint


@pytest.mark.skipif(not clusters.HAS_CLIENT, reason="confluent-kafka is an extra")
def test_brokers_that_do_not_listen_are_named() -> None:
    with pytest.raises(Unavailable, match=r"Kafka at 127\.0\.0\.1:1,127\.0\.0\.1:2 does not answer"):
        ConfluentClusters(seconds=1).describe(CONNECTION, None, "orders")
