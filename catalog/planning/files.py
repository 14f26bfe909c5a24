"""Needs of the files of a plain table or of base: rewrite, deletes, manifests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from catalog.file_layout import APPLY_DELETES, FEWEST_FILES, FileLayout
from catalog.job import Job, JobKind
from catalog.planning.facts import Due, TableFacts
from catalog.planning.need import Later, at, counted
from catalog.planning.schedules import moments
from catalog.relation import TableStats

WITH_VECTORS = 3
"""From this format version on a data file has one deletion vector at most: there is nothing to pack."""


def rewrite(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | Later | None:
    """Small files are packed; where many rows are deleted the files are written anew without them.

    Nothing is due of which the counted files say that the job would find nothing to do.
    """
    stats, layout = facts.stats, facts.sure_layout
    if facts.keeps_hive_files or stats.snapshot_id is None or layout is None:
        return None
    because = _deletes_are_many(facts)
    if because is not None:
        params = _because_of_deletes(stats)
        if layout.packing(params).files:
            return Due(kind=JobKind.REWRITE, why=because, state=str(stats.snapshot_id), params=params)
    return _pack(facts, layout, past, now)


def _deletes_are_many(facts: TableFacts) -> str | None:
    stats, share, most = facts.stats, facts.deleted_share, facts.policy["firn.rewrite.max-delete-ratio"]
    if share >= most and share > 0:
        return f"{share:.0%} of rows are deleted (limit {most:.0%})"
    if stats.equality_deletes and stats.delete_files >= facts.policy["firn.deletes.min-files"]:
        return f"{counted(stats.delete_files, 'delete file')}, some of them equality deletes"
    return None


def _pack(facts: TableFacts, layout: FileLayout, past: Sequence[Job], now: datetime) -> Due | Later | None:
    """Many small files of partitions that have several, or few in so many partitions that half of all files would go.

    The second packs what the first would leave: so it is not done for less than half.
    """
    state, least = str(facts.stats.snapshot_id), max(facts.policy["firn.rewrite.min-files"], FEWEST_FILES)
    few = {"min_files": str(FEWEST_FILES)}
    planned, every = layout.planned.packable_files, layout.asked.packable_files
    if planned >= least:
        why = f"{counted(planned, 'small file')} can be packed (limit {least:,})"
        return Due(kind=JobKind.REWRITE, why=why, state=state)
    if spread_reached(layout, least) >= 1:
        saved = layout.asked.saved_files
        why = f"{saved:,} of {counted(layout.data_files, 'file')} would go: small ones of {layout.asked.groups:,}"
        return Due(kind=JobKind.REWRITE, why=f"{why} partitions", state=state, params=few)
    if every < FEWEST_FILES:
        return None
    small = f"{counted(every, 'small file')} can be packed"
    schedule = moments(JobKind.REWRITE, facts, past, now)
    if schedule.due_since is not None:
        why = f"{small}, and its schedule has come at {at(schedule.due_since)}"
        return Due(kind=JobKind.REWRITE, why=why, state=state, params=few)
    return Later(kind=JobKind.REWRITE, why=f"{small} by schedule", next_at=schedule.following)


def packable(layout: FileLayout, least: int) -> str:
    """How many files can be packed, and how many of them count for a rewrite by need."""
    every, planned = layout.asked.packable_files, layout.planned.packable_files
    fewest = layout.rule["min_files"]
    of_them = "" if planned == every else f", {planned:,} of them with {fewest} or more to a partition"
    return f"{every:,} can be packed{of_them} (a rewrite is due at {least:,})"


def spread_reached(layout: FileLayout, least: int) -> float:
    """How near a rewrite is that packs a few files in each of several partitions; from 1 on it is due."""
    saved = layout.asked.saved_files
    if layout.asked.groups < FEWEST_FILES or not layout.data_files:
        return 0.0
    return min(2 * saved / least, 2 * saved / layout.data_files)


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
