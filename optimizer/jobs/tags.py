"""Tags: those that a schedule asks for are made, and those whose time is over dropped, in one commit.

No Spark is needed: the server has found which snapshot each moment's was.
"""

from __future__ import annotations

from typing import Any

from firn.protocol.leases import Outcome, Result
from firn.protocol.tasks.retention import TagsTask
from optimizer.job import OptimizerJob
from optimizer.job_run import JobRun
from optimizer.read_checks import reads_nothing


def run(work: JobRun) -> Result:
    """Make and drop the tags of the task."""
    task = TagsTask.model_validate(work.lease.task)
    for name, reason in task.missed.items():
        work.keeper.say(f"no tag {name}: {reason}")
    created, dropped = [tag.name for tag in task.make], sorted(task.drop)
    result = {"made": created, "dropped": dropped, "missed": task.missed}
    if not created and not dropped:
        return Result(outcome=Outcome.NOTHING, result=result)
    work.keeper.stage("tagging")
    change = {"requirements": _requirements(task), "updates": _updates(task)}
    work.commit(lambda: work.api.commit_table(work.lease, task.parts, change))
    return Result(outcome=Outcome.COMMITTED, result=result)


def _requirements(task: TagsTask) -> list[dict[str, Any]]:
    """The job neither replaces another user's tag of that name nor drops one that was moved."""
    new = [{"type": "assert-ref-snapshot-id", "ref": tag.name, "snapshot-id": None} for tag in task.make]
    old = [{"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": at} for name, at in task.drop.items()]
    return [{"type": "assert-table-uuid", "uuid": task.table_uuid}, *new, *old]


def _updates(task: TagsTask) -> list[dict[str, Any]]:
    updates = [
        {
            "action": "set-snapshot-ref",
            "ref-name": tag.name,
            "type": "tag",
            "snapshot-id": tag.snapshot_id,
            "max-ref-age-ms": tag.max_ref_age_ms,
        }
        for tag in task.make
    ]
    return [*updates, *({"action": "remove-snapshot-ref", "ref-name": name} for name in task.drop)]


JOB = OptimizerJob(run, reads_nothing)
