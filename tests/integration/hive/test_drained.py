"""What a log says of an upgraded table reaches Hive's readers: drained rows are published like others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import firn
from firn.embedded.kafka import EmbeddedKafka
from tests.hive_lake import HiveTable, Side
from tests.integration.streams.topics import create_topic

pytestmark = [pytest.mark.hive, pytest.mark.spark]


@pytest.fixture
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with EmbeddedKafka(tmp_path_factory.mktemp("kafka") / "data", port=0, heap_mib=256, start_seconds=300) as broker:
        yield broker.brokers


def drain(table: HiveTable) -> int:
    """Without Spark; the number of commits."""
    with firn.connect(table.side.server.url) as client:
        return client.tables[table.name].drain().commits


def test_hive_reads_what_the_topic_of_an_upgraded_table_says(side: Side, brokers: str) -> None:
    topic = create_topic(brokers)
    log = {"firn.log.topic": topic.name, "firn.log.brokers": brokers, "firn.log.format": "firn-json"}
    rows = "VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y'), (4, 'd', 'y')"
    table = side.table("id BIGINT, v STRING", "p STRING", rows).upgrade("id", **log)
    topic.send(
        [
            (1, {"id": 1, "v": "changed", "p": "x"}),
            (2, {"id": 2, "_op": "D"}),
            (3, {"id": 3, "v": "moved", "p": "z"}),
            (5, {"id": 5, "v": "new", "p": "y"}),
            (6, {"id": 6, "v": "never seen", "p": "x"}),
            (6, {"id": 6, "_op": "D"}),
        ]
    )
    assert drain(table) == 1
    expected = [(1, "changed", "x"), (3, "moved", "z"), (4, "d", "y"), (5, "new", "y")]
    assert table.rows() == expected
    assert table.publish()["result"]["partitions"] == 3
    assert table.hive_rows() == table.rows(store=".base") == expected
    assert drain(table) == 0

    # The next records change what was published, and rows that Hive's own writers have added meanwhile.
    table.insert("VALUES (7, 'theirs', 'y'), (8, 'theirs', 'y')")
    table.sync()
    topic.send([(1, {"id": 1, "_op": "D"}), (3, {"id": 3, "v": "back", "p": "y"}), (8, {"id": 8, "_op": "D"})])
    assert drain(table) == 1
    table.publish()
    expected = [(3, "back", "y"), (4, "d", "y"), (5, "new", "y"), (7, "theirs", "y")]
    assert table.hive_rows() == table.rows() == expected
