"""Sinks for `foreachBatch`, which bring each record of a topic into a table exactly once.

    topic = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:9092")
    records = topic.options(**firn.spark.resume("lake.db.orders", writer="orders", topic="orders")).load()
    firn.spark.write_stream(parse(records), "lake.db.orders", writer="orders", checkpoint="/checkpoints/orders")

The table itself remembers up to where it has the records. So a query that has lost its checkpoint loses and doubles
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from firn.errors import Invalid
from firn.names import split_name
from firn.protocol.names import format_sql_name
from firn.spark.batch_steps import BatchStep, read_step
from firn.spark.errors import CommitRefused, NotKeyed
from firn.spark.positions import TopicPosition
from firn.spark.quiet_logs import silence_failure_logs
from firn.spark.stream_changes import Shape, append_changes
from firn.spark.stream_writer import StreamWriter
from firn.spark.target import load_target
from firn.spark.write import choose_columns

Sink: TypeAlias = Callable[[DataFrame, int], None]
"""A function for `DataStreamWriter.foreachBatch`."""
SMALL_RECORDS = 200_000
"""One task writes this many records in a second or two."""


def upsert_sink(
    table: str,
    *,
    writer: str,
    columns: Sequence[str] | None = None,
    op: str | None = None,
    spark: SparkSession | None = None,
) -> Sink:
    """A sink that upserts the rows of each batch into a keyed table.

    `op` names a column with each row's operation: `D` deletes the key's row, `I` and `U` upsert. The batch has all of
    the table's columns, or the key and these `columns`, as for `upsert`. Of two changes of one key, the sequence field
    decides, without one the later record.

    The sink registers the writer at once: commits of earlier copies are refused from now on. `spark` is the session
    that starts the query, by default the active one. Raises NotKeyed for a plain table.
    """
    session = spark or _active_session()
    target = load_target(session, table)
    if columns is not None:
        choose_columns(target, columns)
    shape = Shape(op, columns)
    stream = StreamWriter.register(session, table, writer)

    def write(df: DataFrame, batch: int) -> None:
        step = _read_new_step(session, df, batch, stream)
        if step is None:
            return
        current = load_target(df.sparkSession, table)  # somebody may have added columns
        is_small = _is_small(step)
        stream.commit(step, lambda summary: append_changes(df, current, shape, summary, is_small=is_small))

    return write


def append_sink(table: str, *, writer: str, spark: SparkSession | None = None) -> Sink:
    """A sink that appends the rows of each batch to a plain table, with the columns by name.

    See `upsert_sink` for the rest. Raises Invalid for a keyed table.
    """
    session = spark or _active_session()
    if _is_keyed(session, table):
        raise Invalid(f"{table} is a keyed table", hint="use firn.spark.upsert_sink")
    stream = StreamWriter.register(session, table, writer)
    name = format_sql_name(split_name(table))

    def write(df: DataFrame, batch: int) -> None:
        step = _read_new_step(session, df, batch, stream)
        if step is None:
            return
        rows = df.repartition(1) if _is_small(step) else df

        def append(summary: dict[str, str]) -> None:
            with silence_failure_logs(df.sparkSession):
                rows.writeTo(name).options(**summary).append()

        stream.commit(step, append)

    return write


def write_stream(
    df: DataFrame,
    table: str,
    *,
    writer: str,
    checkpoint: str,
    columns: Sequence[str] | None = None,
    op: str | None = None,
    trigger: dict[str, str | bool] | None = None,
) -> StreamingQuery:
    """Start a query that writes a streaming frame into a table: `upsert_sink` for keyed tables, else `append_sink`.

    `trigger` are the arguments of `DataStreamWriter.trigger`, such as `{"processingTime": "10 seconds"}`.
    """
    spark = df.sparkSession
    if _is_keyed(spark, table):
        sink = upsert_sink(table, writer=writer, columns=columns, op=op, spark=spark)
    elif op is not None or columns is not None:
        raise Invalid(f"{table} is a plain table: its rows are appended whole", hint="leave out `op` and `columns`")
    else:
        sink = append_sink(table, writer=writer, spark=spark)
    stream = df.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint).queryName(f"{writer} → {table}")
    return (stream.trigger(**trigger) if trigger else stream).start()  # type: ignore[arg-type]


def resume(
    table: str,
    *,
    writer: str,
    topic: str | None = None,
    partitions: int | None = None,
    spark: SparkSession | None = None,
) -> dict[str, str]:
    """The options for Spark's Kafka source with which a new query goes on from the table's position.

    The function registers the writer before it reads the position. The sink that is created next for this table and
    writer, in this process, takes that registration. The options stop the query at lost records, and leave out
    records of open and aborted transactions.

    `topic` is read from its beginning if the writer has committed nothing yet. Without it, the options name the topic
    of the position, and none before the first commit. `partitions` is the number of partitions that the topic has now.
    Name it if somebody has added some since the last commit: Spark's source refuses options that leave one out. Raises
    Invalid if the position is not of this topic.
    """
    stream = StreamWriter.register(spark or _active_session(), table, writer, takes_resumed=False)
    options = {"kafka.isolation.level": "read_committed", "failOnDataLoss": "true", "startingOffsets": "earliest"}
    if stream.registered.position is None:
        return options if topic is None else options | {"subscribe": topic}
    position = TopicPosition.parse(stream.registered.position)
    if position is None or topic not in (None, position.topic):
        raise Invalid(
            f"the position of writer {writer!r} in {table} is {stream.registered.position}, "
            f"{'not one of a topic' if position is None else f'not one of topic {topic}'}",
            hint="use another writer for another source",
        )
    return options | {"subscribe": position.topic, "startingOffsets": position.starting_offsets(partitions or 0)}


def _read_new_step(spark: SparkSession, df: DataFrame, batch: int, stream: StreamWriter) -> BatchStep | None:
    """The step of the batch; None if it has neither records nor rows."""
    step = read_step(spark, df, batch, with_first=stream.registered.position is None)
    if not step.is_idle:
        return step
    if df.isEmpty():
        return None
    raise CommitRefused(
        f"batch {batch} has rows but no new record, so no position tells whether they are in the table: start the "
        "query with spark.sql.streaming.noDataMicroBatches.enabled=false, which keeps them for the next records"
    )


def _is_keyed(spark: SparkSession, table: str) -> bool:
    try:
        load_target(spark, table)
    except NotKeyed:
        return False
    return True


def _is_small(step: BatchStep) -> bool:
    return step.end is not None and step.end.count_since(step.start) <= SMALL_RECORDS


def _active_session() -> SparkSession:
    active = SparkSession.getActiveSession()
    if active is None:
        raise RuntimeError("no Spark session is running: start one with firn.spark.session(client, kafka=True)")
    return active
