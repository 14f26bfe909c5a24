"""Statistics: Iceberg's own action counts distinct values and sets the file in metadata, under the job's lease."""

from __future__ import annotations

from typing import Any

from firn.protocol.leases import Lease, Outcome, Result
from firn.protocol.tasks.retention import StatisticsTask
from firn.spark.java import to_java_strings
from optimizer.job import OptimizerJob
from optimizer.job_run import JobRun
from optimizer.read_checks import JobReads, TableRead


def run(work: JobRun) -> Result:
    """Count the values of the head's columns, unless it was done."""
    task = StatisticsTask.model_validate(work.lease.task)
    if task.snapshot_id is None or not task.columns:
        return Result(outcome=Outcome.NOTHING, result={"columns": []})
    work.keeper.stage(f"counting {len(task.columns)} columns")
    path, size = work.commit(lambda: _count(work, task))
    return Result(outcome=Outcome.COMMITTED, result={"columns": task.columns, "file": path, "bytes": size})


def _count(work: JobRun, task: StatisticsTask) -> tuple[str, int]:
    actions = work.session.jvm.org.apache.iceberg.spark.actions.SparkActions.get(work.session.java)
    action: Any = actions.computeTableStats(work.session.table(task.parts)).snapshot(task.snapshot_id)
    file = action.columns(to_java_strings(work.session.spark, task.columns)).execute().statisticsFile()
    return str(file.path()), int(file.fileSizeInBytes())


def reads(lease: Lease) -> JobReads:
    """The snapshot that is counted, if one is."""
    task = StatisticsTask.model_validate(lease.task)
    if task.snapshot_id is None or not task.columns:
        return JobReads()
    return JobReads(tables=[TableRead(parts=task.parts, snapshot_id=task.snapshot_id)])


JOB = OptimizerJob(run, reads)
