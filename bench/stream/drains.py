"""A drain of one large batch against the least that any reader of the topic does, and that any writer of it does."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from bench.measure import Cost, median
from bench.report import Report
from bench.stream.records import COLUMNS, Upserts
from bench.stream.stage import Stage, stage
from firn.spark.log_drain import drain
from firn.spark.sessions import client_of

AIM = 0.9


def run(scratch: Path, options: argparse.Namespace) -> Report:
    """All ways in turns, over the same records; each round drains them into a new table.

    parse       Kafka and `from_json`, without a result.
    append      The same, and an append to a plain Iceberg table, with as many tasks as the drain has.
    drain       A drain in Spark, which looks for values without a column (`firn.log.schema=add`).
    ignore      The same drain, of a table that leaves such values out (`firn.log.schema=ignore`).
    light       A drain without Spark, in this process.
    """
    report = Report(
        "stream-drain", records=options.records, keys=options.keys, partitions=options.partitions, rounds=options.rounds
    )
    upserts = Upserts(options.keys)
    costs: dict[str, list[Cost]] = {"parse": [], "append": [], "drain": [], "ignore": [], "light": []}
    with stage(scratch, options.memory) as running:
        topic = running.fill_topic(upserts, options.records, options.partitions)
        for number in range(-options.warm_rounds, options.rounds):
            for way in list(costs) if number % 2 else list(costs)[::-1]:
                cost = _measure(way, running, topic, upserts, options.records)
                report.line("round", round=number, way=way, **cost.to_json())
                costs[way] += [cost] if number >= 0 else []
    medians = {way: median(rounds) for way, rounds in costs.items()}
    report.line(
        "drain",
        **{f"rate_of_{way}": _compare_rates(medians["drain"], medians[way]) for way in ("parse", "append")},
        add_over_ignore=_compare_rates(medians["ignore"], medians["drain"]),
        light_over_parse=_compare_rates(medians["light"], medians["parse"]),
        light_over_drain=_compare_rates(medians["light"], medians["drain"]),
        aim=AIM,
        records_per_cpu_s={way: round(options.records / cost.cpu) for way, cost in medians.items()},
        records_per_s={way: round(options.records / cost.wall) for way, cost in medians.items()},
    )
    return report


def _compare_rates(cost: Cost, peer: Cost) -> dict[str, float]:
    return {"wall": round(peer.wall / cost.wall, 2), "cpu": round(peer.cpu / cost.cpu, 2)}


def _measure(way: str, running: Stage, topic: str, upserts: Upserts, records: int) -> Cost:
    if way in ("drain", "ignore", "light"):
        return _drain(running, topic, upserts, records, way)
    value = F.from_json(F.col("value").cast("string"), COLUMNS).alias("v")
    rows = running.read_topic(topic).select(value).select("v.*")
    if way == "parse":
        return running.clock.cost(lambda: rows.write.format("noop").mode("overwrite").save())[0]
    table = running.create_plain_table()
    tasks = running.spark.sparkContext.defaultParallelism
    return running.clock.cost(lambda: rows.coalesce(tasks).writeTo(table).append())[0]


def _drain(running: Stage, topic: str, upserts: Upserts, records: int, way: str) -> Cost:
    properties: dict[str, Any] = {"firn.log.schema": "ignore" if way == "ignore" else "add"}
    table = running.create_table(topic, **properties)
    if way == "light":
        client, name = client_of(running.spark, table)
        cost, _ = running.clock.cost(client.tables[name].drain)
    else:
        cost, _ = running.clock.cost(lambda: drain(table, running.spark))
    running.check_drained(table, records)
    running.check(f"{table}.merged", upserts.totals())
    return cost
