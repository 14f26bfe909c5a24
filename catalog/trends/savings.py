"""Savings: what optimizing removed, what that saved readers, and what the jobs cost.

The time of readers is an estimate. A scan of a table that jobs reduced by N files opens N files less. Each sample of a
table counts its scans times the files that jobs had removed from it before: the files of a namespace are not those that
the scans of another table in it would open, so the products are added up, not the factors.
"""

from __future__ import annotations

from dataclasses import dataclass

from catalog.trends.sample import Flows, clamp
from catalog.trends.series import DAY, Series

OPENING_MS = 10
"""What a reader spends to open one more file: at least one request for the Parquet footer and one for a column chunk.

An assumption of Firn, not a measurement: object stores answer a small request in 5 to 30 ms, a local disk in less.
"""
REMOVED_FOR = 30 * DAY
"""How long a removed file counts: without jobs, retention or overwrites would have removed it at some time, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """What jobs saved and cost in some time."""

    files_removed: int
    bytes_removed: int
    bytes_freed: int
    jobs: int
    failed_jobs: int
    job_seconds: float
    scans: int
    openings_saved: int
    reader_seconds: float | None
    """The estimated time that readers saved; None if engines reported no scans."""


def compute_savings(flows: Flows) -> Savings:
    """The savings of what happened in some time."""
    return Savings(
        files_removed=flows.files_removed,
        bytes_removed=flows.bytes_removed,
        bytes_freed=flows.bytes_freed,
        jobs=flows.jobs,
        failed_jobs=flows.failed_jobs,
        job_seconds=flows.job_ms / 1_000,
        scans=flows.scans,
        openings_saved=flows.openings_saved,
        reader_seconds=flows.openings_saved * OPENING_MS / 1_000 if flows.scans else None,
    )


def count_openings(series: Series, begin: int, flows: Flows) -> Flows:
    """What happened to a table in the time from `begin`, with the openings that its scans saved.

    It looks only at files that were removed before, so to count the same time again has the same result.
    """
    if not flows.scans:
        return flows
    removed = sum(sample.flows.files_removed for sample in series.samples if begin - REMOVED_FOR <= sample.at < begin)
    return flows._replace(openings_saved=clamp(flows.scans * removed))
