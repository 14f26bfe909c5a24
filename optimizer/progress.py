"""The progress of a job by Spark's status tracker.

Spark knows a job by a tag: Iceberg's actions set groups of their own, but keep tags.
"""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext, StatusTracker

from optimizer.lease_keeper import Progress


def read_progress(context: SparkContext, tag: str) -> Progress:
    """Tasks done and to do in the stages that run now; empty between two Spark jobs."""
    tracker = context.statusTracker()
    stages = [stage for job in _jobs(context, tag) for stage in _active_stages(tracker, job)]
    total = sum(tasks for tasks, _ in stages)
    return {"done": sum(done for _, done in stages), "total": total, "unit": "tasks"} if total else {}


def last_job_failed(context: SparkContext, tag: str) -> bool:
    """Whether the newest of a job's Spark jobs failed in its tasks: then the driver was not asked to commit."""
    jobs = _jobs(context, tag)
    info = context.statusTracker().getJobInfo(max(jobs)) if jobs else None
    return info is not None and info.status == "FAILED"


def _jobs(context: SparkContext, tag: str) -> list[int]:
    java: Any = context._jsc  # Python's tracker knows groups alone
    return list(java.sc().statusTracker().getJobIdsForTag(tag))


def _active_stages(tracker: StatusTracker, job: int) -> list[tuple[int, int]]:
    info = tracker.getJobInfo(job)
    if info is None or info.status != "RUNNING":
        return []
    stages = (tracker.getStageInfo(stage) for stage in info.stageIds)
    return [(stage.numTasks, stage.numCompletedTasks) for stage in stages if stage is not None and stage.numActiveTasks]
