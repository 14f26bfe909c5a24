"""The answers of trends: measures of tables, namespaces and catalogs over time (docs/trends.md)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from firn.protocol.base import Open, Out


class Measure(StrEnum):
    """The measures of a trend."""

    TABLES = "tables"
    ROWS = "rows"
    BYTES = "bytes"
    FILES = "files"
    SMALL_FILES = "small_files"
    HEALTH = "health"
    PENDING_ROWS = "pending_rows"
    PUBLISH_LAG = "publish_lag_seconds"
    SCANS = "scans"
    PLANNING_MS = "planning_ms"
    JOBS = "jobs"
    FAILED_JOBS = "failed_jobs"
    JOB_SECONDS = "job_seconds"
    FILES_REMOVED = "files_removed"
    BYTES_FREED = "bytes_freed"


class SeriesOut(Out):
    """One measure: a value for each time of the trend; null where there is none."""

    measure: Open[Measure]
    values: list[float | None]


class SavingsOut(Out):
    """What jobs saved and cost in some time.

    `reader_seconds` estimates the time that readers saved: `openings_saved` times `opening_ms`. `openings_saved` adds
    up, for each reported scan, the files that jobs had removed from its table in the 30 days before. `reader_seconds`
    is null if engines reported no scans.
    """

    files_removed: int
    bytes_removed: int
    bytes_freed: int
    jobs: int
    failed_jobs: int
    job_seconds: float
    scans: int
    openings_saved: int
    opening_ms: int
    reader_seconds: float | None


class TrendOut(Out):
    """Measures at the same times. Measures of what happened, such as `jobs`, count from the time before on."""

    times: list[datetime]
    series: list[SeriesOut]
    objects: int
    """The number of samples' sources that are added up: more than one where the caller may read only parts."""
    left_out: int
    """Readable tables and namespaces beyond the largest number that one answer adds up."""
    savings: SavingsOut
    """Of the whole time of the trend."""


class StateOut(Out):
    """The state of tables at a time, added up; the health is their average."""

    tables: int
    rows: int
    bytes: int
    files: int
    small_files: int
    pending_rows: int
    health: float | None


class JobsDoneOut(Out):
    """What jobs did in some time. `files_removed` and `bytes_removed` are what a full scan no longer reads."""

    jobs: int
    failed_jobs: int
    job_seconds: float
    files_removed: int
    bytes_removed: int
    bytes_freed: int


class FreshnessOut(Out):
    """The numbers of tables by the age of their last commit."""

    within_hour: int
    within_day: int
    within_week: int
    older: int


class WorstTableOut(Out):
    """A table with a low health, the parts that take points, and the next job."""

    table: str
    health: int
    parts: dict[str, float]
    reason: str


class SummaryOut(Out):
    """A catalog at a glance, as far as the caller may read it.

    `now` is null before the first sample, and `week_ago` if there was none then. `freshness` and `by_health` are null
    for a caller who may not read the whole catalog.
    """

    at: datetime
    now: StateOut | None
    week_ago: StateOut | None
    trend: TrendOut
    """Tables, rows, bytes, files and health of the last week."""
    day: JobsDoneOut
    week: JobsDoneOut
    freshness: FreshnessOut | None
    by_health: dict[str, int] | None
    worst: list[WorstTableOut]
