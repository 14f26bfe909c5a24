"""Orphan removal: quarantine, and later delete, files that nothing refers to.

The task names the directories to list. server.service.orphans builds it, because it must read other tables too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.maintenance.kind import MaintenanceKind
from catalog.maintenance.scheduled import due_by_schedule
from catalog.planning.facts import Due, TableFacts
from catalog.planning.trigger_result import NotApplicable, NotYet


def trigger(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | NotYet | NotApplicable | None:
    """Due by schedule. Only writers leave orphans, so a table without commits since the last removals has none."""
    if facts.hive_linked or _is_searched(facts, past):
        return None
    if facts.keeps_orphans is not None and facts.policy["firn.orphans.schedule"] is not None:
        return NotApplicable(kind=JobKind.REMOVE_ORPHANS, reason=facts.keeps_orphans)
    action = "unreferenced files are removed"
    return due_by_schedule(JobKind.REMOVE_ORPHANS, "firn.orphans.schedule", action, facts, past, now)


def _is_searched(facts: TableFacts, past: Sequence[Job]) -> bool:
    """Whether orphans of the last commits were old enough for one removal to quarantine and a later one to delete."""
    stores = [facts.stats] if facts.change is None else [facts.stats, facts.change]
    written_at = max((stats.last_commit_at for stats in stores if stats.last_commit_at is not None), default=None)
    if written_at is None:
        return facts.stats.snapshot_id is None
    old_enough_at = written_at + facts.policy["firn.orphans.min-age"]
    removals = [
        job
        for job in past
        if job.kind is JobKind.REMOVE_ORPHANS
        and job.status is JobStatus.SUCCEEDED
        and job.created_at >= old_enough_at
        and job.answers_schedule
        and "refused" not in job.result
    ]
    # A job quarantines its last files just before it ends. The next one deletes files by age when it begins.
    quarantined_at = min((job.ended_at or job.created_at for job in removals), default=None)
    quarantine = facts.policy["firn.orphans.quarantine"]
    return quarantined_at is not None and max(job.created_at for job in removals) - quarantined_at >= quarantine


REMOVE_ORPHANS = MaintenanceKind(
    name=JobKind.REMOVE_ORPHANS,
    max_wait=timedelta(hours=6),
    trigger=trigger,
    is_only_scheduled=True,
    dry_run_params={"dry_run": True},  # Finding orphans means listing every file, which an optimizer does.
)
