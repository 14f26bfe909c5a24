"""The part of its source that one batch of a streaming query has read.

The number of the batch does not tell: a query that has lost its checkpoint counts from 0 again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from firn.spark.errors import CommitRefused
from firn.spark.positions import TopicPosition, read_offsets


@dataclass(frozen=True)
class BatchStep:
    """One batch: its query and number, and the positions between which it has read.

    `end` is None for sources without positions. `start` is None if Spark has not kept where the query began.
    """

    query_id: str
    batch: int
    start: TopicPosition | None = None
    end: TopicPosition | None = None
    first: TopicPosition | None = None
    """Where the query began, if the caller of `read_step` has asked for it."""

    @property
    def is_idle(self) -> bool:
        """Whether the batch has no new record. Spark runs such batches to end windows of a stateful query."""
        return self.start is not None and self.end is not None and self.start.is_at(self.end)


def read_step(spark: SparkSession, df: DataFrame, batch: int, *, with_first: bool = False) -> BatchStep:
    """Read the step of a batch from its query's offset log; `with_first` also reads where the query began.

    `spark` is the session that started the query: the session of `df`, a copy of it, does not know the query. Raises
    CommitRefused if there is no such query, or if it reads several topics.
    """
    context: Any = df.sparkSession.sparkContext
    query_id = str(context.getLocalProperty("sql.streaming.queryId"))
    execution = _find_execution(spark, query_id)
    ends = read_offsets(_read_entry(execution, batch))
    if ends is None:
        return BatchStep(query_id, batch)
    if len(ends) > 1:
        topics = ", ".join(position.topic for position in ends)
        raise CommitRefused(f"the query reads the topics {topics}; a writer reads one topic: start a query for each")
    first = _to_position(_read_first_offsets(df, execution)) if with_first or batch == 0 else None
    start = first if batch == 0 else _to_position(_read_entry(execution, batch - 1))
    return BatchStep(query_id, batch, start, ends[0], first)


def _find_execution(spark: SparkSession, query_id: str) -> Any:
    query = spark.streams.get(query_id) if query_id != "None" else None
    if query is None:
        raise CommitRefused(
            "the sink was called outside of a streaming query of its session: pass it to foreachBatch, and start the "
            "query in the session in which the sink was created"
        )
    java: Any = query._jsq  # noqa: SLF001 -- PySpark offers no way to the offset log
    return java.streamingQuery() if hasattr(java, "streamingQuery") else java


def _to_position(offsets: str | None) -> TopicPosition | None:
    positions = read_offsets(offsets)
    return positions[0] if positions else None


def _read_entry(execution: Any, batch: int) -> str | None:
    entry = execution.offsetLog().get(batch)
    return str(entry.get().toString()) if entry.isDefined() else None


def _read_first_offsets(df: DataFrame, execution: Any) -> str | None:
    """The offsets at which the query began, which the source wrote into its own file of the checkpoint."""
    path = f"{execution.resolvedCheckpointRoot()}/sources/0/0"
    spark = df.sparkSession
    jvm: Any = spark._jvm
    hadoop = jvm.org.apache.hadoop.fs.Path(path)
    files = hadoop.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if not files.exists(hadoop):
        return None
    stream = files.open(hadoop)
    try:
        text = str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()
    return text[text.find("{") :]
