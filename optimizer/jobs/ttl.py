"""Time to live: rows that are too old leave the table, in one commit.

Spark deletes whole files without opening them where the condition matches all their rows, as it does for partitions of
the column's time; other rows are deleted as the table's properties say. What is pending on a keyed table stays pending,
unless it is about such rows: then the commit is a merge of everything, without them (catalog.retention.ttl).
"""

# ruff: noqa: S608 -- SQL of quoted names and conditions that the server has made

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError

from firn.protocol.leases import Outcome, Result
from firn.protocol.tasks.retention import KeyedTtl, TtlTask
from firn.spark.errors import java_causes
from optimizer.job import OptimizerJob
from optimizer.job_run import JobRun
from optimizer.jobs.merge import build_signature, clean_after, merge_sql, run_signed, sign_properties
from optimizer.read_checks import reads_both_stores

_SOURCE = "firn_leaving"
_SOME_ROWS = "org.apache.iceberg.exceptions.ValidationException"
"""The message of Iceberg's exception for a filter that matches some rows of a file, but not all."""
_TOTALS = {"files": "total-data-files", "bytes": "total-files-size", "deletes": "total-delete-files"}
_ROWS = {"deleted-records": 1, "added-records": -1, "added-position-deletes": 1, "removed-position-deletes": -1}


def run(work: JobRun) -> Result:
    """Delete expired rows, if there are any."""
    task = TtlTask.model_validate(work.lease.task)
    work.keeper.say(f"rows are too old where {task.condition}")
    work.keeper.stage("looking for old rows")
    result: dict[str, Any] = {"cutoff": task.cutoff, "whole_partitions": task.whole_partitions}
    merges = task.keyed is not None and _is_concerned(work, task.keyed)
    if not merges and not _has_old_rows(work, task):
        return Result(outcome=Outcome.NOTHING, result=result)
    work.keeper.stage("deleting old rows")
    before = _snapshot_ids(work, task)
    if merges and task.keyed is not None:
        _merge_without(work, task, task.keyed)
        result["cleaned_files"] = clean_after(work, task.keyed.merge.clean)
    else:
        work.commit(lambda: _delete(work, task))
    return Result(outcome=Outcome.COMMITTED, result={**result, "merged": merges, **_count_deleted(work, task, before)})


def _has_old_rows(work: JobRun, task: TtlTask) -> bool:
    table = work.session.spark.table(work.session.name(task.parts))
    return not table.where(task.condition).limit(1).isEmpty()


def _is_concerned(work: JobRun, keyed: KeyedTtl) -> bool:
    return keyed.concerned is not None and not work.session.spark.sql(keyed.concerned).limit(1).isEmpty()


def _delete(work: JobRun, task: TtlTask) -> None:
    properties = {**_reason(work, task), **_describe_reads(task)}
    merge = None if task.keyed is None else task.keyed.merge
    # Rows of base decide which changes take effect on these tables.
    is_checked = merge is not None and (merge.sequence_field is not None or merge.partial or merge.insert_only)
    if is_checked and _delete_whole_files(work, task, properties):
        return
    statement = f"DELETE FROM {work.session.name(task.parts)} WHERE {task.condition}"
    run_signed(work, statement, properties)


def _delete_whole_files(work: JobRun, task: TtlTask, properties: dict[str, str]) -> bool:
    """Delete the old rows with their files, as Spark does; False where a file holds younger rows too.

    Spark's own delete of whole files leaves out the session's properties, and the server refuses a delete that does not
    say which changes it has looked at.
    """
    converter = work.session.jvm.org.apache.spark.sql.execution.datasources.SparkExpressionConverter
    condition = converter.collectResolvedSparkExpression(
        work.session.java, work.session.name(task.parts), task.condition
    )
    delete = work.session.table(task.parts).newDelete()
    delete.deleteFromRowFilter(converter.convertToIcebergExpression(condition))
    delete.set("spark.app.id", work.session.spark.sparkContext.applicationId)
    for key, value in properties.items():
        delete.set(key, value)
    try:
        delete.commit()
    except Py4JJavaError as error:
        if java_causes(error)[0][0] == _SOME_ROWS:
            return False
        raise
    return True


def _describe_reads(task: TtlTask) -> dict[str, str]:
    """Of which changes it is known that none is about an old row; the server refuses the delete if more have come."""
    if task.keyed is None:
        return {}
    return {"firn.looked-at-change": str(task.keyed.merge.change.snapshot_id or "none")}


def _reason(work: JobRun, task: TtlTask) -> dict[str, str]:
    return {"firn.job-id": work.lease.job_id, "firn.reason": f"rows older than {task.cutoff}"}


def _merge_without(work: JobRun, task: TtlTask, keyed: KeyedTtl) -> None:
    merge = keyed.merge
    properties = {**build_signature(work, merge), **_reason(work, task)}
    work.keeper.say(f"pending changes are about such rows: all {merge.pending_rows} are merged without them")
    if merge.base.snapshot_id is None:
        staying = work.session.spark.sql(keyed.staying)
        work.commit(lambda: sign_properties(staying.writeTo(work.session.name(merge.base.parts)), properties).append())
        return
    work.session.spark.sql(keyed.leaving or "").createOrReplaceTempView(_SOURCE)
    work.commit(lambda: run_signed(work, merge_sql(work, merge, _SOURCE), properties))


def _snapshot_ids(work: JobRun, task: TtlTask) -> set[int]:
    return {snapshot.snapshotId() for snapshot in work.session.table(task.parts).snapshots()}


def _count_deleted(work: JobRun, task: TtlTask, seen: set[int]) -> dict[str, Any]:
    """What the job's snapshot says of itself, beside what its parent said.

    Spark's delete of whole files takes no signature of the session's; it names the application, whose one job here this
    is.
    """
    application = work.session.spark.sparkContext.applicationId
    snapshots = {snapshot.snapshotId(): snapshot for snapshot in work.session.table(task.parts).snapshots()}
    new = [snapshot for snapshot_id, snapshot in snapshots.items() if snapshot_id not in seen]
    mine = [snapshot for snapshot in new if dict(snapshot.summary()).get("spark.app.id") == application]
    if not mine:
        return {}
    parent = snapshots.get(mine[0].parentId())
    after, before = dict(mine[0].summary()), {} if parent is None else dict(parent.summary())
    gained: dict[str, int] = {}
    for name, total in _TOTALS.items():
        gained |= {f"{name}_before": int(before.get(total, 0)), f"{name}_after": int(after.get(total, 0))}
    files = int(after.get("deleted-data-files", 0))
    return {"deleted_rows": _deleted_rows(after), "deleted_files": files, "gained": gained}


def _deleted_rows(summary: dict[str, str]) -> int:
    """Rows whose files went or were written without them, and those that delete files newly take away."""
    counts = {key: int(summary.get(key, 0)) for key in _ROWS}
    return sum(sign * counts[key] for key, sign in _ROWS.items())


JOB = OptimizerJob(run, reads_both_stores)
