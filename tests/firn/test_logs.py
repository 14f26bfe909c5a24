"""Batches of a drain, and the options of Spark's connector."""

from __future__ import annotations

from typing import Any

from firn.logs import LogBatch, Truncate, build_kafka_options, cut_at_truncate, plan_batch, plan_tail
from firn.protocol.answers.logs import LogOut

LOG: dict[str, Any] = {
    "topic": "orders",
    "topic_id": "a",
    "format": "firn-json",
    "connection": None,
    "brokers": ["a:1", "b:2"],
    "security": "plaintext",
    "mechanism": None,
    "username": None,
    "ca": None,
    "writer": "log",
    "position": "orders:0:5,1:0,2:7",
    "start": {"0": 5, "1": 0, "2": 7},
    "end": {"0": 15, "1": 2, "2": 7},
    "skip_to": "orders:0:5,1:0,2:7",
    "committed_at": None,
    "lag": 12,
    "starts_latest": False,
    "problem": None,
    "one_change_per_key": False,
    "deletes": "apply",
    "bad_rows": "quarantine",
    "max_bad_share": 0.1,
    "source_tables": None,
    "source_column": None,
    "schema_changes": "ignore",
    "truncates": "stop",
    "max_lag_seconds": 30.0,
    "max_batch_rows": 100,
    "max_tail_rows": 100,
}


def log(**changes: Any) -> LogOut:
    return LogOut.read({**LOG, **changes})


def test_a_batch_takes_what_waits() -> None:
    batch = plan_batch(log())
    assert batch is not None
    assert (batch.position, batch.most_records) == ("orders:0:15,1:2,2:7", 12)


def test_a_batch_is_bounded_and_partitions_share_it() -> None:
    for most in range(1, 13):
        batch = plan_batch(log(max_batch_rows=most))
        assert batch is not None
        assert batch.most_records == most
        assert all(batch.start[number] <= batch.end[number] <= log().end[number] for number in batch.end)
    six = plan_batch(log(max_batch_rows=6))
    assert six is not None
    assert six.end == {0: 9, 1: 2, 2: 7}


def test_without_records_there_is_a_commit_only_to_keep_where_a_log_began() -> None:
    done = {"start": LOG["end"], "lag": 0}
    assert plan_batch(log(**done)) is None
    assert plan_batch(log(**done, starts_latest=True)) is None
    first = plan_batch(log(**done, starts_latest=True, position=None))
    assert first is not None
    assert (first.position, first.most_records) == ("orders:0:15,1:2,2:7", 0)


def test_options_of_the_connector() -> None:
    plain = build_kafka_options(log(), None)
    assert plain["kafka.bootstrap.servers"] == "a:1,b:2"
    assert (plain["kafka.isolation.level"], plain["failOnDataLoss"]) == ("read_committed", "true")
    secure = log(security="sasl-ssl", mechanism="SCRAM-SHA-512", username='a"b', ca="-----BEGIN CERTIFICATE-----")
    options = build_kafka_options(secure, 'p\\w" required;')
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="a\\"b" password="p\\\\w\\" required;";'
    )
    assert options["kafka.ssl.truststore.type"] == "PEM"


def test_the_tail_of_a_read_begins_where_the_pair_ends() -> None:
    assert plan_tail(log(), "orders:0:9,1:0,2:7").start == {0: 9, 1: 0, 2: 7}
    assert plan_tail(log(), None).start == {0: 5, 1: 0, 2: 7}
    overtaken = plan_tail(log(), "orders:0:20,1:0,2:7")  # a drain was faster
    assert (overtaken.start[0], overtaken.end[0], overtaken.most_records) == (20, 20, 2)


def test_a_batch_ends_before_a_truncate_which_is_a_batch_of_its_own() -> None:
    batch, truncate = LogBatch(topic="orders", start={0: 5}, end={0: 15}), Truncate(partition=0, offset=9)
    before = cut_at_truncate(batch, truncate)
    assert (before.end, before.truncate) == ({0: 9}, None)
    alone = cut_at_truncate(LogBatch(topic="orders", start={0: 9}, end={0: 15}), truncate)
    assert (alone.end, alone.truncate, alone.position) == ({0: 10}, truncate, "orders:0:10")
