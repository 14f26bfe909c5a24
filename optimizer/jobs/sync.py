"""Sync: what Hive-side writers did to a keyed table (docs/protocols.md#hive-sync-and-publish).

`upsert`: files came and none went; their rows are appended to the change store. `rebuild`: partitions are not what they
were; base gets them anew. The server advances its record of what Hive has in the commit's own transaction, so each
mode ends in exactly one commit that counts, also when there are no rows.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.leases import Lease, Outcome, Result
from firn.protocol.tasks.sync import SyncTask
from optimizer.hive_rows import SOURCE, HiveRows
from optimizer.job import OptimizerJob
from optimizer.job_run import JobRun
from optimizer.jobs import rebuild
from optimizer.jobs.merge import clean_after, sign_properties
from optimizer.read_checks import CHANGE, JobReads, TableRead, stores_of

TARGET_ROWS_PER_TASK = 500_000


def run(work: JobRun) -> Result:
    """Take over the changes of Hive that the task names."""
    task = SyncTask.model_validate(work.lease.task)
    work.keeper.say(f"{task.mode}: {len(task.units)} partitions, {task.files} files to read")
    if task.mode == "upsert":
        _upsert(work, task)
        return Result(outcome=Outcome.COMMITTED, result={"mode": task.mode, "files": task.files})
    touched = rebuild.rebuild(work, task)
    cleaned = clean_after(work, task.merge.clean)
    done = {"mode": task.mode, "files": task.files, "touched_partitions": touched, "cleaned_files": cleaned}
    return Result(outcome=Outcome.COMMITTED, result=done)


def _upsert(work: JobRun, task: SyncTask) -> None:
    """Keys meet in one task on their way through `newest`, so a key is in the commit once."""
    session = work.session
    work.keeper.stage("reading Hive's new files")
    table = session.spark.table(session.name(task.merge.base.parts)).schema
    work.keeper.stage("appending to the change store")
    work.commit(lambda: _append(work, task, HiveRows(session, task, table).newest()))


def _append(work: JobRun, task: SyncTask, rows: DataFrame) -> None:
    columns = [name for name in rows.columns if name in task.merge.columns]
    changes = rows.select(*[F.col(f"`{name.replace('`', '``')}`") for name in columns], F.lit("U").alias("_op"), SOURCE)
    writer = changes.writeTo(work.session.name(task.merge.change.parts))
    marks = {
        "firn.writer-id": task.writer,
        "firn.batch-id": task.batch,
        "firn.job-id": work.lease.job_id,
        "firn.reason": f"{task.files} files that Hive has added",
    }
    sign_properties(writer, marks).append()


def reads(lease: Lease) -> JobReads:
    """Hive's files; a rebuild also replays all changes that ever were."""
    task = SyncTask.model_validate(lease.task)
    files = [file.location for unit in task.units for file in unit.files]
    if task.mode == "upsert":
        return JobReads(files=files)
    tables = [TableRead(parts=table.parts, every_snapshot=True) for table in lease.tables if table.parts[-1] == CHANGE]
    return JobReads(tables=[*stores_of(lease, change=False), *stores_of(lease, change=True), *tables], files=files)


JOB = OptimizerJob(run, reads)
