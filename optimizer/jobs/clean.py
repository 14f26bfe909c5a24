"""Clean: files of changes that base contains leave the change store's current snapshot.

They stay on disk: readers pinned to older snapshots, and the history, need them until these expire.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.leases import Outcome, Result
from firn.protocol.tasks.merge import CleanTask
from optimizer.job import OptimizerJob
from optimizer.job_run import JobRun
from optimizer.read_checks import reads_change_store


def run(work: JobRun) -> Result:
    """A clean without a merge, for files that a merge had to leave behind."""
    cleaned = clean(work, CleanTask.model_validate(work.lease.task))
    return Result(outcome=Outcome.COMMITTED if cleaned else Outcome.NOTHING, result={"cleaned_files": cleaned})


def clean(work: JobRun, task: CleanTask) -> int:
    """Take the merged files out of the current snapshot; how many there were. Raises as Work.commit does."""
    table = work.session.table(task.parts)
    paths = _merged_files(work, task, table)
    if paths:
        work.commit(lambda: remove_from_table(work.session.jvm, table, paths, {"firn.job-id": work.lease.job_id}))
        work.keeper.say(f"{len(paths)} merged files left the change store")
    return len(paths)


def remove_from_table(jvm: Any, table: Any, paths: Sequence[str], properties: dict[str, str]) -> None:
    """Commit a snapshot without these files. No file is touched: a StringBuilder is what keeps it so.

    py4j also sees protected methods, and for a Python string it would choose SnapshotProducer.deleteFile(String), which
    deletes the file from storage. The StringBuilder only fits DeleteFiles.deleteFile(CharSequence).
    """
    delete = table.newDelete()
    for path in paths:
        delete.deleteFile(jvm.java.lang.StringBuilder(path))
    for key, value in properties.items():
        delete.set(key, value)
    delete.commit()


def _merged_files(work: JobRun, task: CleanTask, table: Any) -> list[str]:
    """Files whose rows base contains all. A compacted one carries a later number than its rows: it stays longer."""
    if table.currentSnapshot() is None:
        return []
    entries = work.session.spark.table(f"{work.session.name(task.parts)}.entries")
    live = entries.where((F.col("status") < 2) & (F.col("data_file.content") == 0))
    merged = live.where(F.col("sequence_number") <= task.through).select("data_file.file_path", "sequence_number")
    if task.keep_deletes:
        changes = work.session.spark.table(work.session.name(task.parts))
        with_deletes = changes.where("_op = 'D'").select(F.col("_file").alias("file_path")).distinct()
        young = merged.where(F.col("sequence_number") > (task.deletes_through or 0))
        young = young.join(with_deletes, "file_path", "left_semi")
        merged = merged.join(young, "file_path", "left_anti")
    return [row.file_path for row in merged.collect()]


JOB = OptimizerJob(run, reads_change_store)
