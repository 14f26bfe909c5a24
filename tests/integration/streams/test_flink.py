"""Flink's changelog in a topic, a drain behind it, and the same changelog in a change store, which is the wrong way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from firn.spark import drain
from firn.spark.jars import fetch
from tests.integration.engines.flink import STREAMING, Flink, Session, flink_beside
from tests.integration.streams.jars import FLINK_CONNECTOR
from tests.integration.streams.test_drain import create, merged
from tests.integration.streams.topics import Topic
from tests.spark_fixtures import RunningServer
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
NewTopic = Callable[..., Topic]
KEYS = [key for key in range(20) for _ in range(key + 1)]
"""Key k comes k + 1 times: in the end each count has one key, and Flink has deleted the counts in between."""
COUNTS_OF_COUNTS = """
    INSERT INTO log SELECT n AS id, count(*) AS n, CAST(NULL AS STRING) AS `day`
    FROM (SELECT id, count(*) AS n FROM numbers GROUP BY id) GROUP BY n
"""


@pytest.fixture(scope="module")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    with flink_beside(tmp_path_factory.mktemp("flink"), fetch(FLINK_CONNECTOR)) as running:
        yield running


def open_session(flink: Flink, numbers: Topic, log: Topic, **options: str) -> Session:
    """A session with the tables `numbers`, a topic that it reads, and `log`, one that it writes by transactions."""
    session = flink.session(STREAMING, {"execution.checkpointing.interval": "500 ms", **options})
    brokers = f"'properties.bootstrap.servers' = '{log.brokers}'"
    session.sql(
        f"CREATE TEMPORARY TABLE numbers (id BIGINT) WITH ('connector' = 'kafka', 'topic' = '{numbers.name}', "
        f"{brokers}, 'properties.group.id' = 'flink', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json')",
        "CREATE TEMPORARY TABLE log (id BIGINT, n BIGINT, `day` STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ("
        f"'connector' = 'upsert-kafka', 'topic' = '{log.name}', {brokers}, "
        "'properties.transaction.timeout.ms' = '60000', 'key.format' = 'json', 'value.format' = 'json', "
        f"'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{log.name}')",
    )
    return session


def test_an_aggregation_of_flink_comes_through_the_topic_also_after_a_savepoint(
    server: RunningServer, new_topic: NewTopic, flink: Flink, tmp_path: Path
) -> None:
    numbers, log = new_topic(1), new_topic(2)
    create(server, log, "counts", properties={"firn.log.format": "upsert-json"})
    half = len(KEYS) // 2
    numbers.send((0, {"id": key}) for key in KEYS[:half])
    first = open_session(flink, numbers, log).start(COUNTS_OF_COUNTS)
    so_far = dict(Counter(Counter(KEYS[:half]).values()))

    def has(expected: dict[int, int]) -> bool:
        drain("lake.db.counts", server.spark)
        return merged(server, "counts") == expected

    wait_for(lambda: has(so_far))
    savepoint = first.stop(tmp_path)
    numbers.send((0, {"id": key}) for key in KEYS[half:])
    second = open_session(flink, numbers, log, **{"execution.state-recovery.path": savepoint}).start(COUNTS_OF_COUNTS)
    # Without the state of the first job, the second would count from zero, and leave other counts.
    wait_for(lambda: has(dict.fromkeys(range(1, 21), 1)))
    second.stop(tmp_path)
    assert has(dict.fromkeys(range(1, 21), 1))


def test_a_changelog_that_is_inserted_into_the_change_store_loses_its_deletes(
    server: RunningServer, new_topic: NewTopic, flink: Flink
) -> None:
    """Why the docs name the ways that work. Flink sends the insert and the retraction of a row as two rows."""
    create(server, new_topic(1), "kinds")
    session = flink.session(STREAMING)
    session.sql(
        f"CREATE CATALOG lake WITH ('type' = 'iceberg', 'catalog-type' = 'rest', 'uri' = '{server.url}/iceberg', "
        "'warehouse' = 'lake', 'base-namespace' = 'db')",
        "CREATE TEMPORARY VIEW words AS SELECT * FROM (VALUES (7), (7)) AS v(id)",
    )
    session.sql(
        "INSERT INTO lake.kinds.change (id, n, _op) SELECT n, count(*), 'U' "
        "FROM (SELECT id, count(*) AS n FROM words GROUP BY id) GROUP BY n"
    )
    # The only number came twice, so no number has the count 1 any more: Flink has deleted that row, and it is back.
    assert merged(server, "kinds") == {1: 1, 2: 1}
