"""Retries of the records in a quarantine: those that are changes now go to the table (docs/protocols.md, rule 6.13).

The position of the commit names the records that it has sent. If a retry dies before it has removed them from the
quarantine, the next one does that first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.client import TableHandle
from firn.errors import FirnError, Refused
from firn.logs import suggest_remedy
from firn.names import split_name
from firn.protocol.answers.logs import LogOut
from firn.protocol.answers.writers import WriterOut
from firn.protocol.names import format_sql_name
from firn.quarantine import NAME
from firn.record_names import RecordNames, take_while_short
from firn.spark.avro_schemas import BatchSchemas
from firn.spark.change_append import append_changes
from firn.spark.decoded import INDEX, OFFSET, OWN, PARTITION, fail_on_bad, select_bad
from firn.spark.errors import reason
from firn.spark.log_records import decode_changes, keep_newest
from firn.spark.sessions import client_of, find_session
from firn.spark.target import Target, load_target

TRIES = 4
"""How often a retry tries to remove what it has sent: jobs may pack the files of the quarantine meanwhile."""
MOST_RECORDS = 5_000
"""How many records one commit takes at most."""
_RECORD = ("topic", "timestamp", "key", "value", "headers", "partition", "offset")
_KEYS = f"{PARTITION} int, {OFFSET} long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """The result of a retry: records that went to the table, that are still bad, and that a drain has to pass first."""

    table: str
    sent: int
    still_bad: int
    waiting: int
    is_ordered_by_field: bool
    """Whether the table's sequence field orders the changes. Otherwise they win over all rows that came before now."""
    is_insert_only: bool = False
    """Whether rows that are there stay."""


def retry_quarantine(table: str, spark: SparkSession | None = None) -> Retried:
    """Send the records of a table's quarantine again, in the order of their offsets, as a drain decodes them now.

    Records that are changes now go to the table, once each, and leave the quarantine. The others stay. Without a
    sequence field, they win over rows of their keys that came since. Another retry that still runs is fenced.

    Raises Refused while the log has a problem, or if another retry has started since. Raises FirnError if the server
    does not answer. Start it again after any error: no record is lost, and none is there twice.
    """
    active = find_session(spark)
    client, name = client_of(active, table)
    handle = client.tables[name]
    if not active.catalog.tableExists(_sql_name(table)):
        return _report(load_target(active, table), table=table)
    writer = handle.writers.register(NAME)  # before the quarantine is read (docs/protocols.md, rule 6.2)
    return Retry(active, handle, load_target(active, table), writer).run()


@dataclass
class Retry:
    """One copy of the writer that sends records again."""

    spark: SparkSession
    handle: TableHandle
    target: Target
    writer: WriterOut
    pause: Callable[[float], None] = time.sleep
    _still_bad: int = field(default=0, init=False)

    def run(self) -> Retried:
        """Send all records that a drain has passed."""
        if self.writer.position is not None:
            self.remove(RecordNames.parse(self.writer.position))
        sent = 0
        for topic_id in [row[0] for row in self._read().select("topic_id").distinct().orderBy("topic_id").collect()]:
            sent += self._send_topic(topic_id)
        left = self._read().count()
        waiting = max(left - self._still_bad, 0)
        return _report(self.target, table=self.target.name, sent=sent, still_bad=self._still_bad, waiting=waiting)

    def _send_topic(self, topic_id: str) -> int:
        sent, after = 0, (-1, -1)
        while True:
            rows = self._read().where(F.col("topic_id") == topic_id)  # before the log: a drain only moves on
            log = self._look()
            later = (F.col("partition") == after[0]) & (F.col("offset") > after[1])
            waiting = rows.where((F.col("partition") > after[0]) | later)
            chunk = _select_passed(waiting, log, topic_id).orderBy("partition", "offset").limit(MOST_RECORDS)
            keys = [(row.partition, row.offset) for row in chunk.select("partition", "offset").collect()]
            if not keys:
                return sent
            records = self._join(rows.select(*_RECORD), keys, ("partition", "offset"))
            schemas = BatchSchemas(self.handle.log).load(records, log)
            decoded = decode_changes(records, log, self.target, schemas=schemas)
            bad = {(row[0], row[1]) for row in select_bad(decoded).select(PARTITION, OFFSET).distinct().collect()}
            good = take_while_short(topic_id, [key for key in keys if key not in bad])
            after = good[-1] if len(good) < len(keys) - len(bad) else keys[-1]
            self._still_bad += sum(key <= after for key in bad)
            if good:
                self._commit(self._join(decoded, good, (PARTITION, OFFSET)), log, RecordNames.of(topic_id, good))
                sent += len(good)

    def _look(self) -> LogOut:
        log = self.handle.log.show()
        if log.problem is not None:
            name = str(self.handle.name)
            raise Refused(f"{name}: {log.problem.message}", hint=f"first: {suggest_remedy(log, name)}")
        return log

    def _commit(self, changes: DataFrame, log: LogOut, names: RecordNames) -> None:
        good = fail_on_bad(changes)
        kept = keep_newest(good, self.target) if log.one_change_per_key else good
        order = [name for name in (PARTITION, OFFSET, INDEX) if name in kept.columns]
        ordered = kept.coalesce(1).sortWithinPartitions(*order).drop(*OWN, INDEX)
        try:
            self.append(ordered, names)
        except Exception as error:  # Java throws many types of errors; the table's position matters
            if not self._has_committed(names):
                raise FirnError(
                    f"{self.handle.name}: the retry could not commit {len(names.keys)} records: {reason(error)}",
                    hint="start the retry again: it sends no record twice",
                ) from error
        self.writer = self.writer.model_copy(update={"position": names.format()})
        self.remove(names)

    def append(self, changes: DataFrame, names: RecordNames) -> None:
        """Append changes; the position names their records."""
        summary = {
            "firn.writer-id": self.writer.name,
            "firn.writer-epoch": str(self.writer.epoch),
            "firn.position-from": self.writer.position or "none",
            "firn.position": names.format(),
        }
        append_changes(changes, self.target, summary)

    def _has_committed(self, names: RecordNames) -> bool:
        now = self.handle.writers.get(NAME)
        if now.epoch != self.writer.epoch or now.fenced_at is not None:
            raise Refused(f"{self.handle.name}: another retry has started at {now.registered_at:%Y-%m-%d %H:%M:%S} UTC")
        return now.position == names.format()

    def remove(self, names: RecordNames) -> None:
        """Delete the rows of records that the table has."""
        by_partition: dict[int, list[int]] = {}
        for partition, offset in names.keys:
            by_partition.setdefault(partition, []).append(offset)
        where = " OR ".join(
            f"(partition = {partition} AND offset IN ({', '.join(map(str, offsets))}))"
            for partition, offsets in by_partition.items()
        )
        condition = f"topic_id = '{names.topic_id}' AND ({where})"
        for attempt in range(1, TRIES + 1):
            if self._read().where(condition).isEmpty():
                return
            try:
                self.spark.sql(f"DELETE FROM {_sql_name(self.target.name)} WHERE {condition}")  # noqa: S608 -- checked parts
            except Exception as error:  # a job may have packed the files that hold the rows
                if attempt == TRIES:
                    raise FirnError(
                        f"{self.handle.name}: the table has {len(names.keys)} records that the retry could not remove "
                        f"from the quarantine: {reason(error)}",
                        hint="start the retry again: it removes them first, and sends no record twice",
                    ) from error
                self.pause(0.5 * 2**attempt)
            else:
                return

    def _read(self) -> DataFrame:
        name = _sql_name(self.target.name)
        self.spark.sql(f"REFRESH TABLE {name}")  # sessions of users may keep tables
        return self.spark.table(name)

    def _join(self, frame: DataFrame, keys: list[tuple[int, int]], names: tuple[str, str]) -> DataFrame:
        """The rows of these records."""
        wanted = self.spark.createDataFrame(keys, _KEYS).toDF(*names)
        return frame.join(F.broadcast(wanted), [*names], "left_semi")


def _report(target: Target, *, table: str, sent: int = 0, still_bad: int = 0, waiting: int = 0) -> Retried:
    return Retried(
        table=table,
        sent=sent,
        still_bad=still_bad,
        waiting=waiting,
        is_ordered_by_field=target.sequence_field is not None,
        is_insert_only=target.is_insert_only,
    )


def _select_passed(rows: DataFrame, log: LogOut, topic_id: str) -> DataFrame:
    """The records below the log's position: the drain may commit the others itself. Old topics have been passed."""
    if topic_id != log.topic_id:
        return rows
    passed = F.lit(False)
    for partition, offset in (log.start if log.position is not None else {}).items():
        passed = passed | ((F.col("partition") == partition) & (F.col("offset") < offset))
    return rows.where(passed)


def _sql_name(table: str) -> str:
    return format_sql_name((*split_name(table), NAME))
