"""Orphans: set aside, and later delete, files that nothing refers to.

Its task says what to list. server.service.orphans builds it, because that looks at the other tables too.
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
    """Who writes leaves orphans: a table that nobody has written to since the last looks has none."""
    if facts.hive_linked or _looked_through(facts, past):
        return None
    if facts.keeps_orphans is not None and facts.policy["firn.orphans.schedule"] is not None:
        return NotApplicable(kind=JobKind.REMOVE_ORPHANS, reason=facts.keeps_orphans)
    what = "files that nothing refers to are looked for"
    return due_by_schedule(JobKind.REMOVE_ORPHANS, "firn.orphans.schedule", what, facts, past, now)


def _looked_through(facts: TableFacts, past: Sequence[Job]) -> bool:
    """Whether files of the last commits' time were old enough to be set aside once, and to be deleted after that."""
    stores = [facts.stats] if facts.change is None else [facts.stats, facts.change]
    written = max((stats.last_commit_at for stats in stores if stats.last_commit_at is not None), default=None)
    if written is None:
        return facts.stats.snapshot_id is None
    ripe = written + facts.policy["firn.orphans.min-age"]
    looks = [
        job
        for job in past
        if job.kind is JobKind.REMOVE_ORPHANS
        and job.status is JobStatus.SUCCEEDED
        and job.created_at >= ripe
        and job.answers_schedule
        and "refused" not in job.result
    ]
    # The last files of a look are set aside just before it ends, and looked for when the next one begins.
    aside_at = min((job.ended_at or job.created_at for job in looks), default=None)
    quarantine = facts.policy["firn.orphans.quarantine"]
    return aside_at is not None and max(job.created_at for job in looks) - aside_at >= quarantine


REMOVE_ORPHANS = MaintenanceKind(
    name=JobKind.REMOVE_ORPHANS,
    max_wait=timedelta(hours=6),
    trigger=trigger,
    is_only_scheduled=True,
    dry_run_params={"dry_run": True},  # to find orphans, every file has to be listed: an optimizer does that
)
