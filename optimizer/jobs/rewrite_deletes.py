"""Deletes: delete files are packed into fewer, and those that apply to nothing any more are dropped.

A deletion vector belongs to one data file and cannot be packed with others; where a data file is gone its vector goes.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.functions import count_distinct

from firn.protocol.leases import Outcome, Result
from firn.protocol.tasks.files import DeletesTask
from firn.spark.java import iterate
from optimizer.job import OptimizerJob
from optimizer.job_run import JobRun
from optimizer.job_totals import JobTotals
from optimizer.read_checks import reads_main_store, refresh_checked


def run(work: JobRun) -> Result:
    """Drop what dangles, then pack position deletes of a table in format 2, or what an upgrade has left of them."""
    task = DeletesTask.model_validate(work.lease.task)
    table = work.session.table(task.parts)
    totals = JobTotals.opened(work, table)
    if table.currentSnapshot() is None:
        return Result(outcome=Outcome.NOTHING, result={"gained": totals.gained()})
    work.keeper.stage("dropping delete files that apply to nothing")
    dangling = drop_dangling(work, table)
    refresh_checked(work, table, task.parts)
    work.keeper.stage("packing delete files")
    work.commit(lambda: _pack(work, task, table))
    changes = totals.changes()
    work.keeper.has_committed = changes.commits > 0
    result = {
        "removed_delete_files": changes.removed_deletes,
        "added_delete_files": changes.added_deletes,
        "dangling_delete_files": dangling,
        "gained": totals.gained(),
    }
    if not changes.commits:
        return Result(outcome=Outcome.NOTHING, result=result)
    work.keeper.say(f"{changes.removed_deletes} delete files became {changes.added_deletes}, {dangling} had dangled")
    return Result(outcome=Outcome.COMMITTED, result=result)


def drop_dangling(work: JobRun, table: Any) -> int:
    """Drop delete files that apply to no live data file; how many. Raises as Work.commit does."""
    action = _actions(work).removeDanglingDeleteFiles(table)
    action.snapshotProperty("firn.job-id", work.lease.job_id)
    had_committed = work.keeper.has_committed
    result = work.commit(action.execute)
    dropped = sum(1 for _ in iterate(result.removedDeleteFiles()))
    work.keeper.has_committed = had_committed or dropped > 0
    return dropped


def _pack(work: JobRun, task: DeletesTask, table: Any) -> None:
    action = _actions(work).rewritePositionDeletes(table)
    if _specs_meet(work, task):
        columns = _columns_of_some_specs(table)
        if columns is None:
            work.keeper.say(
                "nothing packed: partition specs differ in a column that is gone; a rewrite applies the deletes"
            )
            return
        work.keeper.say(
            f"packed only where {' and '.join(columns)} is set: elsewhere delete files are of several specs"
        )
        not_null = work.session.jvm.org.apache.iceberg.expressions.Expressions.notNull
        for column in columns:
            action = action.filter(not_null(column))
    action.option("min-input-files", str(task.min_files))
    action.snapshotProperty("firn.job-id", work.lease.job_id)
    action.execute()


def _specs_meet(work: JobRun, task: DeletesTask) -> bool:
    """Whether two specs have a partition that is one to Iceberg: what a spec does not have is null there.

    Its action groups by that partition and then refuses groups of two specs, which fails the whole of it
    (BinPackRewritePositionDeletePlanner and SparkPositionDeletesRewriteBuilder, Iceberg 1.12).
    """
    files = work.session.spark.table(f"{work.session.name(task.parts)}.delete_files")
    if "partition" not in files.columns:
        return False
    specs = files.where("content = 1").groupBy("partition").agg(count_distinct("spec_id").alias("specs"))
    return not specs.where("specs > 1").isEmpty()


def _columns_of_some_specs(table: Any) -> list[str] | None:
    """The columns that not every spec partitions by in the same way; None if one of them is no column any more."""
    specs = [
        {(field.fieldId(), field.sourceId(), str(field.transform())) for field in iterate(spec.fields())}
        for spec in table.specs().values()
    ]
    shared = specs[0].intersection(*specs[1:])
    sources = {source for spec in specs for _, source, _ in spec - shared}
    names = [table.schema().findColumnName(source) for source in sorted(sources)]
    return None if None in names else names


def _actions(work: JobRun) -> Any:
    return work.session.jvm.org.apache.iceberg.spark.actions.SparkActions.get(work.session.java)


JOB = OptimizerJob(run, reads_main_store)
