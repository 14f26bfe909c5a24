"""A drain of one large batch against the least that any reader of the topic does: Kafka and `from_json`."""

from __future__ import annotations

import argparse
from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from bench.measure import Cost, median
from bench.report import Report
from bench.stream.records import COLUMNS, Upserts
from bench.stream.stage import Stage, stage
from firn.spark.log_drain import drain

AIM = 0.9


def run(scratch: Path, options: argparse.Namespace) -> Report:
    """Both in turns, over the same records; each round drains them into a new table."""
    report = Report(
        "stream-drain", records=options.records, keys=options.keys, partitions=options.partitions, rounds=options.rounds
    )
    upserts = Upserts(options.keys)
    costs: dict[str, list[Cost]] = {"parse": [], "drain": []}
    with stage(scratch, options.memory) as running:
        topic = running.fill_topic(upserts, options.records, options.partitions)
        for number in range(-options.warm_rounds, options.rounds):
            for way in list(costs) if number % 2 else list(costs)[::-1]:
                cost = _parse(running, topic) if way == "parse" else _drain(running, topic, upserts, options.records)
                report.line("round", round=number, way=way, **cost.to_json())
                costs[way] += [cost] if number >= 0 else []
    parse, drained = median(costs["parse"]), median(costs["drain"])
    report.line(
        "drain",
        rate_of_parse={"wall": round(parse.wall / drained.wall, 2), "cpu": round(parse.cpu / drained.cpu, 2)},
        aim=AIM,
        records_per_cpu_s={"parse": round(options.records / parse.cpu), "drain": round(options.records / drained.cpu)},
        records_per_s={"parse": round(options.records / parse.wall), "drain": round(options.records / drained.wall)},
    )
    return report


def _parse(running: Stage, topic: str) -> Cost:
    def parse() -> None:
        value = F.from_json(F.col("value").cast("string"), COLUMNS).alias("v")
        running.read_topic(topic).select(value).select("v.*").write.format("noop").mode("overwrite").save()

    return running.clock.cost(parse)[0]


def _drain(running: Stage, topic: str, upserts: Upserts, records: int) -> Cost:
    table = running.create_table(topic)
    cost, _ = running.clock.cost(lambda: drain(table, running.spark))
    running.check_drained(table, records)
    running.check(f"{table}.merged", upserts.totals())
    return cost
