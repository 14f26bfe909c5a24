"""Streaming queries of tests: from a topic of JSON records into a table, until all records are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.spark.sinks import Sink, append_sink, resume, upsert_sink
from tests.integration.streams.topics import Topic

COLUMNS = "id BIGINT, n BIGINT"
_NUMBERS = count()


@dataclass
class Pipeline:
    """A query from a topic into a table; `keyed` tables are upserted."""

    spark: SparkSession
    topic: Topic
    checkpoint: Path
    keyed: bool = True
    columns: str = COLUMNS
    by: str = ""
    op: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    catalog: str = "lake"
    writer: str = "orders"
    name: str = field(default_factory=lambda: f"s{next(_NUMBERS)}")

    @property
    def table(self) -> str:
        return f"{self.catalog}.db.{self.name}"

    def create(self) -> Pipeline:
        properties = ({"firn.primary-key": "id"} if self.keyed else {}) | dict(self.properties)
        listed = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
        self.spark.sql(
            f"CREATE TABLE {self.table} ({self.columns}) USING iceberg {self.by}"
            + (f" TBLPROPERTIES ({listed})" if listed else "")
        )
        return self

    def resume(self) -> dict[str, str]:
        return resume(self.table, writer=self.writer, topic=self.topic.name, spark=self.spark)

    def sink(self) -> Sink:
        if self.keyed:
            return upsert_sink(self.table, writer=self.writer, op=self.op, spark=self.spark)
        return append_sink(self.table, writer=self.writer, spark=self.spark)

    def read(self, **options: str) -> DataFrame:
        source = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.topic.brokers)
        records = source.options(**{"subscribe": self.topic.name, "startingOffsets": "earliest", **options}).load()
        columns = self.columns if self.op is None else f"{self.columns}, {self.op} STRING"
        return records.select(F.from_json(F.col("value").cast("string"), columns).alias("v")).select("v.*")

    def run(
        self,
        options: Mapping[str, str] | None = None,
        sink: Sink | None = None,
        change: Callable[[DataFrame], DataFrame] = lambda df: df,
    ) -> str | None:
        """Run until the table has all records. Returns the message of a failure, None for success.

        Without options, the query begins where the table is. The checkpoint is more important than the options.
        """
        chosen = self.resume() if options is None else options
        stream = change(self.read(**chosen)).writeStream.foreachBatch(sink or self.sink())
        query = stream.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(300)
        except StreamingQueryException as error:
            return str(error)
        finally:
            query.stop()
        return None

    def written(self) -> tuple[int, int]:
        """The number of changes, or of rows of a plain table, and the sum of `n`: doubled rows show in both."""
        stored = f"{self.table}.change" if self.keyed else self.table
        row = self.spark.sql(f"SELECT count(*), coalesce(sum(n), 0) FROM {stored}").first()
        assert row is not None
        return row[0], row[1]

    def snapshots(self) -> int:
        stored = f"{self.table}.change" if self.keyed else self.table
        return self.spark.table(f"{stored}.snapshots").count()


def numbers(start: int, end: int) -> list[tuple[int, dict[str, int]]]:
    """Records with the keys start to end - 1, and n = key."""
    return [(number, {"id": number, "n": number}) for number in range(start, end)]
