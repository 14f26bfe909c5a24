"""How the changes of a log's batch go to tasks, and so to files (docs/protocols.md, rule 6.8).

All changes of a key lie in one file, in the order of the log. The topic keeps this order by itself, because the records
of a key lie in one partition of it, which one task reads. So most batches need neither a shuffle nor a sort.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.logs import LogBatch
from firn.protocol.answers.logs import LogOut
from firn.protocol.names import quote_name
from firn.spark.decoded import OFFSET, PARTITION
from firn.spark.log_records import keep_newest
from firn.spark.skew import spread_rows
from firn.spark.target import Target

SMALL_RECORDS = 50_000
"""One task writes this many records in seconds, and leaves one file for each partition of the table."""
SAMPLED_RECORDS = 12_000
_LARGEST_TASK = 2.0
"""A task may get so many times its share before a shuffle pays."""
_OFFSET_BITS = 48


def order_changes(
    changes: DataFrame, target: Target, log: LogOut, batch: LogBatch, read: Callable[[LogBatch], DataFrame]
) -> DataFrame:
    """Bring the changes of a key into one task, in the order of the log. `changes` has no bad records.

    `read` decodes the records of a batch: a few of them tell which partitions of the table are hot.
    """
    cores = changes.sparkSession.sparkContext.defaultParallelism
    tasks = 1 if batch.most_records <= SMALL_RECORDS else cores
    is_whole = tasks == 1 or not target.partition_columns  # each further task leaves files in most partitions
    if log.one_change_per_key:
        kept = keep_newest(changes, target)  # one change has no order
        spread = None if is_whole else spread_rows(kept, target, _sample(batch, read), share=1.0, tasks=tasks)
        return kept.coalesce(tasks) if spread is None else spread
    if is_whole and is_balanced(batch, tasks):
        return changes.coalesce(tasks)
    keys = [F.col(quote_name(key)) for key in target.key]
    spread = None if is_whole else spread_rows(changes, target, _sample(batch, read), share=1.0, tasks=tasks)
    by_key = changes.repartition(tasks, *keys) if spread is None else spread
    # One number sorts faster than two columns.
    return by_key.sortWithinPartitions(F.shiftleft(F.col(PARTITION).cast("long"), _OFFSET_BITS) + F.col(OFFSET))


def is_balanced(batch: LogBatch, tasks: int) -> bool:
    """Whether so many tasks, each of which reads whole partitions of the topic, get about as many records."""
    largest = max((batch.end[number] - batch.start[number] for number in batch.end), default=0)
    return largest * tasks <= _LARGEST_TASK * batch.most_records


def choose_sample(batch: LogBatch, most: int = SAMPLED_RECORDS) -> list[LogBatch]:
    """At most so many offsets from the beginning, the middle and the end of a batch: its partitions in equal shares."""
    size = max(most // (3 * len(batch.end)), 1)
    starts: list[dict[int, int]] = [{}, {}, {}]
    for number, end in batch.end.items():
        first, last = batch.start[number], max(end - size, batch.start[number])
        for start, at in zip(starts, (first, (first + last) // 2, last), strict=True):
            start[number] = at
    ends = [{number: min(at + size, batch.end[number]) for number, at in start.items()} for start in starts]
    return [LogBatch(topic=batch.topic, start=start, end=end) for start, end in zip(starts, ends, strict=True)]


def _sample(batch: LogBatch, read: Callable[[LogBatch], DataFrame]) -> DataFrame:
    first, *others = map(read, choose_sample(batch))
    for other in others:
        first = first.unionByName(other)
    return first
