"""The jars of the tests with Kafka: the broker, the connectors of Spark and Flink, and Iceberg's Connect sink.

`python -m tests.integration.streams.jars` fetches them and prints where they are.
"""

from __future__ import annotations

import sys
from functools import partial

from firn.embedded.jars import Coordinate, fetch_jar_set
from firn.embedded.kafka import JARS
from firn.spark.jars import KAFKA_CONNECTOR, fetch
from tests.integration.fetching import report
from tests.integration.streams.connect import SINK, WORKER

FLINK_CONNECTOR: Coordinate = ("org.apache.flink", "flink-sql-connector-kafka", "4.0.1-2.0")

if __name__ == "__main__":
    sets = (partial(fetch_jar_set, jars) for jars in (JARS, KAFKA_CONNECTOR, WORKER, SINK))
    sys.exit(report(*sets, partial(fetch, FLINK_CONNECTOR)))
