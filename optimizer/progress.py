"""Spark's own account of how far a job is, from its status tracker."""

from __future__ import annotations

from pyspark import SparkContext, StatusTracker

from optimizer.hold import Progress


def progress_of(context: SparkContext, group: str) -> Progress:
    """Tasks done and to do in the stages that run now; empty between two Spark jobs."""
    tracker = context.statusTracker()
    stages = [stage for job in tracker.getJobIdsForGroup(group) for stage in _active_stages(tracker, job)]
    total = sum(tasks for tasks, _ in stages)
    return {"done": sum(done for _, done in stages), "total": total, "unit": "tasks"} if total else {}


def last_job_failed(context: SparkContext, group: str) -> bool:
    """Whether Spark's newest job of a group failed in its tasks: then the driver was not asked to commit."""
    tracker = context.statusTracker()
    jobs = tracker.getJobIdsForGroup(group)
    info = tracker.getJobInfo(max(jobs)) if jobs else None
    return info is not None and info.status == "FAILED"


def _active_stages(tracker: StatusTracker, job: int) -> list[tuple[int, int]]:
    info = tracker.getJobInfo(job)
    if info is None or info.status != "RUNNING":
        return []
    found = (tracker.getStageInfo(stage) for stage in info.stageIds)
    return [(stage.numTasks, stage.numCompletedTasks) for stage in found if stage is not None and stage.numActiveTasks]
