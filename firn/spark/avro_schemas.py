"""The Avro schemas of a batch: the driver asks the server for them, and hands them to Spark's Python tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.errors import NotFound, Refused
from firn.logs import LogBatch, TableLog
from firn.protocol.answers.logs import LogOut
from firn.protocol.avro.wire_format import AVRO_FORMATS, PREFIX_BYTES

MOST_SCHEMAS = 1_000
"""The largest number of schemas in one batch."""
_ID = "_firn_schema"


@dataclass
class BatchSchemas:
    """The schemas of a log. It asks for each one once: the schema of an id never changes."""

    log: TableLog
    _texts: dict[int, list[str]] = field(default_factory=dict)
    _batch: LogBatch | None = None
    _of_batch: dict[int, list[str]] = field(default_factory=dict)

    def load(self, records: DataFrame, log: LogOut, batch: LogBatch | None = None) -> dict[int, list[str]]:
        """The texts of all schemas that a bounded frame of Kafka's records names; none for other formats.

        This reads the records once more; the schemas of a `batch` are remembered. Ids that the registry does not have
        are missing. Raises Refused for more than 1,000 schemas, and FirnError if the registry does not answer.
        """
        if log.format not in AVRO_FORMATS:
            return {}
        if batch is None or batch != self._batch:
            self._of_batch = self._load_all(list_ids(records))
            self._batch = batch
        return self._of_batch

    def _load_all(self, ids: list[int]) -> dict[int, list[str]]:
        for number in ids:
            if number not in self._texts:
                try:
                    self._texts[number] = self.log.schema(number).texts
                except NotFound:  # it may be registered later
                    continue
        return {number: self._texts[number] for number in ids if number in self._texts}


def list_ids(records: DataFrame) -> list[int]:
    """The schema ids of all keys and values of a bounded frame. Raises Refused for more than 1,000."""
    ids = [records.select(_read_id(name).alias(_ID)) for name in ("key", "value")]
    numbers = ids[0].union(ids[1]).where(F.col(_ID) >= 0).distinct().limit(MOST_SCHEMAS + 1).collect()
    if len(numbers) > MOST_SCHEMAS:
        raise Refused(
            f"the records have more than {MOST_SCHEMAS:,} schemas",
            hint="check that the topic has records in the wire format of a schema registry: firn log check",
        )
    return sorted(row[_ID] for row in numbers)


def _read_id(name: str) -> Column:
    """The number in the bytes 2 to 5; null unless the first byte is 0."""
    digits = F.hex(F.substring(name, 1, PREFIX_BYTES))
    number = F.conv(F.substring(digits, 3, 2 * PREFIX_BYTES - 2), 16, 10).cast("long")
    is_record = (F.length(name) >= PREFIX_BYTES) & F.startswith(digits, F.lit("00")) & (number < 2**31)
    return F.when(is_record, number)
