"""What the demo shows, step by step; each step checks what it claims."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from uuid import UUID

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from demo.claims import DemoFailed, require
from demo.delays import Delays
from demo.duck import query
from demo.hive import DATABASE, FLIGHTS, Fingerprint, create_database, fingerprint, is_loaded, load_table
from demo.steps import Steps
from firn import spark as firn_spark
from firn.client import Client
from firn.hdfs.files import is_on_hdfs
from firn.protocol.answers.jobs import JobOut
from firn.protocol.jobs import JobStatus
from firn.protocol.operations import OperationStatus

TABLE = f"{DATABASE}.flights"
KEYED = f"lake.{TABLE}"
KEY = ("time_hour", "carrier", "flight")
OTHERS = ("airlines", "airports", "planes", "weather")
MERGE_DUE = "firn.merge.max-pending-rows"
MERGE_SECONDS = 300
NEW_FLIGHTS = 1_000


@dataclass
class Story:
    """One run on a started Firn."""

    steps: Steps
    client: Client
    spark: SparkSession
    hive_dir: str
    """The directory of the Hive tables, on this machine or on HDFS."""
    files: Fingerprint = field(init=False)
    hive_answer: tuple[int, ...] = field(init=False)

    def tell(self) -> None:
        """All of it."""
        self._load()
        self._look_at_hive()
        self._upgrade()
        delays = Delays(self.steps, self.client, self.spark)
        delays.build()
        expected = self._change()
        merged = self._read_pending(expected)
        self._merge(merged)
        self._prove()
        self._publish(merged)
        delays.update()

    def _load(self) -> None:
        with self.steps.step("Load flights into Hive (Parquet, by month, day)") as step:
            create_database(self.spark, self.hive_dir)
            if is_loaded(self.spark, "flights"):
                step.result = "there from an earlier run"
            else:
                rows = load_table(self.spark, "flights", partitioned_by=("month", "day"))
                step.result = f"{rows:,} rows"
        with self.steps.step("Load airlines, airports, planes, weather") as step:
            loaded = {table: load_table(self.spark, table) for table in OTHERS if not is_loaded(self.spark, table)}
            step.result = (
                ", ".join(f"{table} {rows:,}" for table, rows in loaded.items()) or "there from an earlier run"
            )

    def _look_at_hive(self) -> None:
        with self.steps.step("Note what Hive says, and all of its files") as step:
            self.hive_answer = _answer(self.spark.table(FLIGHTS))
            self.files = fingerprint(self.hive_dir)
            step.result = (
                f"{self.hive_answer[0]:,} flights; {len(self.files.files):,} files, {self.files.bytes / 2**20:.1f} MiB"
            )

    def _upgrade(self) -> None:
        with self.steps.step(f"Upgrade {TABLE} in place, key {', '.join(KEY)}") as step:
            self.client.hive.refresh()
            if self.client.hive.show(TABLE)["state"] == "upgraded":
                step.result = "upgraded by an earlier run"
                return
            report = self.client.hive.check(TABLE, primary_key=KEY)
            blocked = [check["message"] for check in report["checks"] if check["status"] == "blocked"]
            require(report["eligible"], f"{TABLE} cannot be upgraded: {'; '.join(blocked)}")
            operation = self.client.operations.wait(self.client.hive.upgrade(TABLE, primary_key=KEY).id)
            reason = operation.error or operation.status
            require(operation.status is OperationStatus.SUCCEEDED, f"the upgrade did not succeed: {reason}")
            same = _answer(self.spark.table(KEYED)) == self.hive_answer
            require(same, "the upgraded table does not say what the Hive table says")
            step.result = f"{report['files']:,} files registered, none read beyond its footer, none copied"

    def _change(self) -> int:
        """Correct, add and delete flights; the number that the table must have after it."""
        # On a busy machine, a reader who waits 5 s may see the rows before the changes.
        self.client.tables[KEYED].set_properties({"firn.read.max-wait": "60 s"}, [MERGE_DUE])
        flights = firn_spark.read(KEYED, self.spark)
        before = flights.count()
        run = int(flights.agg(F.max("flight")).first()[0] or 0) // 10_000 + 1  # type: ignore[index]  # one row
        month = (run - 1) % 12 + 1
        with self.steps.step("Upsert corrections and new flights (PySpark)") as step:
            corrected = flights.where((F.col("carrier") == "UA") & (F.col("month") == month))
            corrected = corrected.withColumn("dep_delay", F.col("dep_delay") + 1)
            of_day = flights.where((F.col("month") == month) & (F.col("day") <= 2) & (F.col("flight") < 10_000))
            added = of_day.limit(NEW_FLIGHTS).withColumn("flight", F.col("flight") + run * 10_000)
            batch = corrected.unionByName(added).localCheckpoint()
            firn_spark.upsert(batch, KEYED, batch=f"corrections of run {run}", writer="demo")
            step.result = f"{batch.count():,} rows in one commit, {NEW_FLIGHTS:,} of them new"
        with self.steps.step("Delete flights that never left (PySpark)") as step:
            never_left = F.col("dep_time").isNull() & (F.col("carrier") != "UA") & (F.col("flight") < 10_000)
            canceled = flights.where((F.col("month") == month) & never_left).select(*KEY).localCheckpoint()
            firn_spark.delete(canceled, KEYED, batch=f"canceled of run {run}", writer="demo")
            deleted = canceled.count()
            step.result = f"{deleted:,} rows in one commit"
        return before + NEW_FLIGHTS - deleted

    def _read_pending(self, expected: int) -> tuple[int, ...]:
        with self.steps.step("Read the merged table while all is pending") as step:
            merged = _answer(firn_spark.read(KEYED, self.spark))
            pending = self.client.tables[KEYED].show().pending_rows
            require(pending > 0, "the changes are not pending any more, so reading them merged shows nothing")
            require(merged[0] == expected, f"the table has {merged[0]:,} flights, not {expected:,}")
            step.result = f"{merged[0]:,} flights with {pending:,} changes pending"
        if not is_on_hdfs(self.hive_dir):  # which DuckDB cannot read
            self._read_in_duckdb(merged)
        with self.steps.step("The same from Python, without Spark") as step:
            arrow = self.client.scan(KEYED, columns=list(KEY)).to_arrow()
            require(arrow.num_rows == expected, f"the Arrow scan has {arrow.num_rows:,} flights, not {expected:,}")
            step.result = f"{arrow.num_rows:,} rows as Arrow"
        return merged

    def _read_in_duckdb(self, merged: tuple[int, ...]) -> None:
        with self.steps.step("The same in DuckDB, as an ordinary Iceberg table") as step:
            statement = f"SELECT count(*), sum(dep_delay) FROM {KEYED}"  # noqa: S608 -- the demo's own table
            (row,) = query(self.client.url, statement)
            require(tuple(row) == merged[:2], f"DuckDB says {tuple(row)}, not {merged[:2]}")
            step.result = f"{row[0]:,} flights, {row[1]:,} minutes of delay: as in Spark"

    def _merge(self, merged: tuple[int, ...]) -> None:
        table = self.client.tables[KEYED]
        with self.steps.step("Ask for merges soon; the optimizer takes it") as step:
            earlier_jobs = {job.id for job in table.jobs(20)}
            table.set_properties({MERGE_DUE: "1000"})
            job = self._merge_job(earlier_jobs)
            ended = self.client.jobs.wait(job.id, seconds=MERGE_SECONDS)
            require(ended.status is JobStatus.SUCCEEDED, f"the merge {ended.status}: {ended.error}")
            mode = ended.result.get("mode", "")
            step.result = f"{ended.kind} {mode} because {ended.reason}; nothing is pending now"
        with self.steps.step("Read again after the merge") as step:
            pending = table.show().pending_rows
            require(pending == 0, f"{pending:,} changes are still pending after the merge")
            again = _answer(firn_spark.read(KEYED, self.spark))
            require(again == merged, "the merge changed what the table says")
            step.result = f"{again[0]:,} flights, the same answer"

    def _merge_job(self, earlier_jobs: set[UUID]) -> JobOut:
        """The merge that the server plans by itself."""
        give_up = time.monotonic() + MERGE_SECONDS
        while time.monotonic() < give_up:
            for job in self.client.tables[KEYED].jobs(20):
                if job.kind == "merge" and job.id not in earlier_jobs:
                    return job
            time.sleep(0.3)
        raise DemoFailed(f"no merge was planned: {self.client.tables[KEYED].explain().reason}")

    def _prove(self) -> None:
        with self.steps.step("Hive still answers on its own data") as step:
            require(self._hive() == self.hive_answer, "Hive's answer has changed")
            step.result = f"{self.hive_answer[0]:,} flights, the same answer"
        with self.steps.step("No Hive file has changed") as step:
            changed = self.files.differences(fingerprint(self.hive_dir))
            require(not changed, f"{len(changed)} Hive files have changed, for example {changed[:1]}")
            step.result = f"{len(self.files.files):,} files: same names, sizes, times and SHA-256"

    def _publish(self, merged: tuple[int, ...]) -> None:
        with self.steps.step("Publish to Hive, only partitions that differ") as step:
            outcome = self.client.hive.publish(TABLE)
            require(outcome["job"] is not None, f"nothing was published: {outcome['message']}")
            ended = self.client.jobs.wait(UUID(outcome["job"]["id"]), seconds=MERGE_SECONDS)
            require(ended.status is JobStatus.SUCCEEDED, f"the publish {ended.status}: {ended.error}")
            step.result = f"{ended.result['switched']} partitions, {ended.result['rows']:,} rows"
        with self.steps.step("Read with Hive's own catalog") as step:
            require(self._hive() == merged, "Hive does not say what the merged table says")
            changed = self.files.differences(fingerprint(self.hive_dir))
            require(not changed, f"{len(changed)} Hive files have changed, for example {changed[:1]}")
            step.result = f"{merged[0]:,} flights: Hive sees the merge, its own files are as they were"

    def _hive(self) -> tuple[int, ...]:
        self.spark.catalog.refreshTable(FLIGHTS)
        return _answer(self.spark.table(FLIGHTS))


def _answer(flights: DataFrame) -> tuple[int, ...]:
    """Count, sum of delays, and a checksum of all values of all rows, in whatever order these come."""
    columns = sorted(flights.columns)
    row = flights.agg(
        F.count("*"), F.sum("dep_delay"), F.expr(f"bit_xor(xxhash64({', '.join(f'`{column}`' for column in columns)}))")
    ).first()
    return tuple(row) if row is not None else ()
