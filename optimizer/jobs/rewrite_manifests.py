"""Manifests: where a table has many they are written anew, fewer and by partition, by Iceberg's own action."""

from __future__ import annotations

from math import ceil
from typing import Any

from firn.protocol.leases import Outcome, Result
from firn.protocol.tasks.files import ManifestsTask
from firn.spark.java import iterate
from optimizer.job import OptimizerJob
from optimizer.job_run import JobRun
from optimizer.read_checks import reads_manifests

TARGET_SIZE = "commit.manifest.target-size-bytes"
DEFAULT_TARGET_SIZE = 8 * 2**20


def run(work: JobRun) -> Result:
    """Rewrite the manifests of each table that has too many, and for which fewer would do."""
    task = ManifestsTask.model_validate(work.lease.task)
    before = after = rewritten = 0
    for parts in task.tables:
        table = work.session.table(parts)
        sizes = _sizes(table)
        before += len(sizes)
        if len(sizes) > task.max_count and _can_be_fewer(table, sizes):
            work.keeper.stage(f"rewriting {len(sizes)} manifests of {parts[-1]}")
            rewritten += _rewrite(work, table)
            table.refresh()
        after += len(_sizes(table))
    work.keeper.has_committed = rewritten > 0
    result = {"manifests_before": before, "manifests_after": after, "rewritten_manifests": rewritten}
    return Result(outcome=Outcome.COMMITTED if rewritten else Outcome.NOTHING, result=result)


def _rewrite(work: JobRun, table: Any) -> int:
    """Return the number of replaced manifests; zero if all manifests belong to older partition specs."""
    action = work.session.jvm.org.apache.iceberg.spark.actions.SparkActions.get(work.session.java)
    rewrite = action.rewriteManifests(table).option("use-caching", "false")
    rewrite.snapshotProperty("firn.job-id", work.lease.job_id)
    result = work.commit(rewrite.execute)
    return sum(1 for _ in iterate(result.rewrittenManifests()))


def _sizes(table: Any) -> list[int]:
    head = table.currentSnapshot()
    return [] if head is None else [manifest.length() for manifest in iterate(head.allManifests(table.io()))]


def _can_be_fewer(table: Any, sizes: list[int]) -> bool:
    """Full manifests stay as many as they are: rewritten, they would be found too many again, for ever."""
    target = int(table.properties().get(TARGET_SIZE) or DEFAULT_TARGET_SIZE)
    return ceil(sum(sizes) / target) <= len(sizes) / 2


JOB = OptimizerJob(run, reads_manifests)
