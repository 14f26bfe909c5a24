"""`python -m tests.integration.streams.mortal URL MOMENT TABLE [TOPIC BROKERS CHECKPOINT]`: a process that dies.

It drains a table, or copies a topic into it by a streaming query, and dies at a moment such as
`after LogDrain.append 2`. In place of a table it takes the file of `firn cdc`, of which it runs one round.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import firn
import firn.spark
from firn.cdc.cluster import open_cluster
from firn.cdc.config import read_config
from firn.drains.light import LightDrain
from firn.spark.cdc_run import CdcRun, TableProgress
from firn.spark.log_drain import LogDrain
from firn.spark.stream_writer import StreamWriter
from tests.integration.streams.queries import Pipeline
from tests.integration.streams.topics import Topic

POINTS: dict[str, tuple[Any, str]] = {
    "CdcRun._change": (CdcRun, "_change"),
    "CdcRun._create": (CdcRun, "_create"),
    "CdcRun._observe": (CdcRun, "_observe"),
    "LightDrain.add_columns": (LightDrain, "add_columns"),
    "LightDrain.append": (LightDrain, "append"),
    "LightDrain.read": (LightDrain, "read"),
    "LightDrain.write": (LightDrain, "write"),
    "LogDrain._order": (LogDrain, "_order"),
    "LogDrain.append": (LogDrain, "append"),
    "StreamWriter.register": (StreamWriter, "register"),
    "StreamWriter.commit": (StreamWriter, "commit"),
}


def main(url: str, moment: str, table: str, *query: str) -> None:
    """Work until the moment comes."""
    when, point, number = moment.split(" ")
    owner, name = POINTS[point]
    setattr(owner, name, _make_mortal(getattr(owner, name), when, int(number)))
    if owner is LightDrain:
        firn.connect(url).tables[f"db.{table}"].drain()
        return
    spark = firn.spark.session(url, app="mortal", kafka=True)
    if table.endswith(".yaml"):
        run_cdc(firn.connect(url), Path(table), spark)
        return
    if not query:
        firn.spark.drain(f"lake.db.{table}", spark)
        return
    topic, brokers, checkpoint = query
    line = Pipeline(spark, Topic(brokers, topic, 2), Path(checkpoint), keyed=False, name=table)
    line.run(line.resume() | {"maxOffsetsPerTrigger": "20"})


def run_cdc(client: firn.Client, file: Path, spark: SparkSession) -> list[TableProgress]:
    """One round of `firn cdc`, by a copy that has seen nothing before."""
    config = read_config(file)
    cluster = open_cluster(config, client)
    return CdcRun(config=config, client=client, cluster=cluster, spark=spark, say=print).run_once()


def _make_mortal(function: Callable[..., Any], when: str, number: int) -> Callable[..., Any]:
    calls = count(1)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        is_last = next(calls) == number
        if is_last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*args, **kwargs)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return called


if __name__ == "__main__":
    main(*sys.argv[1:])
