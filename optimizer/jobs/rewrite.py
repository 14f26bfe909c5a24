"""Rewrite: small files of a plain table or of one store are packed into larger ones, by Iceberg's own action."""

from __future__ import annotations

from typing import Any

from optimizer.wire import Outcome, Result, RewriteTask
from optimizer.work import Work


def run(work: Work) -> Result:
    """Pack the table's small files in one commit."""
    task = RewriteTask.model_validate(work.lease.task)
    work.hold.stage("rewriting")
    done = work.commit(lambda: _rewrite(work, task))
    if not done["rewritten_files"]:
        work.hold.has_committed = False  # the action commits only when it has found files worth packing
        return Result(outcome=Outcome.NOTHING, result=done)
    work.hold.say(f"packed {done['rewritten_files']} files into {done['added_files']}")
    return Result(outcome=Outcome.COMMITTED, result=done)


def _rewrite(work: Work, task: RewriteTask) -> dict[str, Any]:
    actions = work.session.jvm.org.apache.iceberg.spark.actions.SparkActions.get(work.session.java)
    action = actions.rewriteDataFiles(work.session.table(task.parts)).binPack()
    options = {
        "target-file-size-bytes": task.target_file_size,
        "min-file-size-bytes": min(task.small_file_size, task.target_file_size - 1),
        "min-input-files": task.min_files,
    }
    for key, value in options.items():
        action.option(key, str(value))
    # The action does not read the session's snapshot properties.
    action.snapshotProperty("firn.job-id", work.lease.job_id)
    result = action.execute()
    return {
        "rewritten_files": result.rewrittenDataFilesCount(),
        "added_files": result.addedDataFilesCount(),
        "rewritten_bytes": result.rewrittenBytesCount(),
    }
