"""The jars of the tests with Kafka: the broker, Spark's connector, and Kafka Connect with Iceberg's sink.

`python -m tests.integration.streams.jars` fetches them and prints where they are.
"""

from __future__ import annotations

import sys
from functools import partial

from firn.embedded.jars import fetch_jar_set
from firn.embedded.kafka import JARS
from firn.spark.jars import KAFKA_CONNECTOR
from tests.integration.fetching import report
from tests.integration.streams.connect import SINK, WORKER

if __name__ == "__main__":
    sys.exit(report(*(partial(fetch_jar_set, jars) for jars in (JARS, KAFKA_CONNECTOR, WORKER, SINK))))
