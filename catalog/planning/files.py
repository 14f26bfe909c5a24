"""Needs of the files of a plain table or of base: rewrite, deletes, manifests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from catalog.job import Job, JobKind
from catalog.planning.facts import Due, TableFacts
from catalog.planning.need import Later, at, counted
from catalog.planning.schedules import moments
from catalog.relation import TableStats

WITH_VECTORS = 3
"""From this format version on a data file has one deletion vector at most: there is nothing to pack."""
FEWEST = 2
"""Small files that can be packed at all."""
APPLY_DELETES = "apply_deletes"
"""That a rewrite takes every file that a delete file applies to."""


def rewrite(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | Later | None:
    """Small files are packed; where many rows are deleted the files are written anew without them."""
    stats = facts.stats
    least, most = facts.policy["firn.rewrite.min-files"], facts.policy["firn.rewrite.max-delete-ratio"]
    if facts.keeps_hive_files or stats.snapshot_id is None:
        return None
    state = str(stats.snapshot_id)
    share = facts.deleted_share
    if share >= most and share > 0:
        why = f"{share:.0%} of rows are deleted (limit {most:.0%})"
        return Due(kind=JobKind.REWRITE, why=why, state=state, params=_because_of_deletes(stats))
    if stats.equality_deletes and stats.delete_files >= facts.policy["firn.deletes.min-files"]:
        why = f"{counted(stats.delete_files, 'delete file')}, some of them equality deletes"
        return Due(kind=JobKind.REWRITE, why=why, state=state, params=_because_of_deletes(stats))
    small = f"{counted(stats.small_files, 'small file')} since the last rewrite"
    if stats.small_files >= max(least, FEWEST):
        return Due(kind=JobKind.REWRITE, why=f"{small} (limit {least:,})", state=state)
    if stats.small_files < FEWEST:
        return None
    schedule = moments(JobKind.REWRITE, facts, past, now)
    if schedule.due_since is not None:
        why = f"{small}, and its schedule has come at {at(schedule.due_since)}"
        return Due(kind=JobKind.REWRITE, why=why, state=state, params={"min_files": str(FEWEST)})
    return Later(kind=JobKind.REWRITE, why=f"{small} by schedule", next_at=schedule.following)


def _because_of_deletes(stats: TableStats) -> dict[str, Any]:
    """A vector tells how many rows its one file has lost; of other deletes nobody knows where they take rows away."""
    are_vectors = stats.format_version >= WITH_VECTORS and not stats.equality_deletes
    return {"because": "deletes"} | ({} if are_vectors else {APPLY_DELETES: True})


def deletes(facts: TableFacts, _past: Sequence[Job], _now: datetime) -> Due | Later | None:
    stats, least = facts.stats, facts.policy["firn.deletes.min-files"]
    if stats.format_version >= WITH_VECTORS or not stats.position_deletes or stats.delete_files < least:
        return None
    why = f"{counted(stats.delete_files, 'delete file')} (limit {least:,})"
    return Due(kind=JobKind.DELETES, why=why, state=str(stats.snapshot_id))


def manifests(facts: TableFacts, past: Sequence[Job], _now: datetime) -> Due | Later | None:
    """Each commit adds one: a table that needs as many as it has is not looked at again before as many commits."""
    stats, most = facts.stats, facts.policy["firn.manifests.max-count"]
    if stats.manifests is None or stats.manifests <= most:
        return None
    commits = stats.sequence_number or stats.manifests
    state = f"after {commits // most * most}" + ("" if stats.sequence_number else f" since {_last_packed(past)}")
    return Due(kind=JobKind.MANIFESTS, why=f"{stats.manifests:,} manifests (limit {most:,})", state=state)


def _last_packed(past: Sequence[Job]) -> str:
    """The last job that has written any anew. Format v1 counts no commits: since then manifests tell how many came."""
    packed = (str(job.id) for job in past if job.kind is JobKind.MANIFESTS and job.committed_by is not None)
    return next(packed, "ever")
