"""The metrics of `/metrics`: counts of all worker processes, and figures from the database at the time of the scrape.

A scrape reaches any of the workers, so all workers count in shared files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

REQUESTS = Counter("firn_requests_total", "Requests answered.", ["area", "method", "status"])
SECONDS = Histogram("firn_request_seconds", "Time to answer a request.", ["area", "method"])
TASK_SECONDS = Gauge(
    "firn_task_seconds", "How long a background task's last activation took.", ["task"], multiprocess_mode="mostrecent"
)
TASK_FAILED = Gauge(
    "firn_task_failed",
    "Whether a background task's last activation failed.",
    ["task"],
    multiprocess_mode="mostrecent",
)
IMAGE_SECONDS = Histogram("firn_image_build_seconds", "Time to merge a keyed table for its readers.")
IMAGE_FAILURES = Counter("firn_image_build_failures_total", "Merges of keyed tables for readers that failed.")
OLDER_IMAGE_LAG = Histogram(
    "firn_older_image_lag_seconds",
    "Reads of keyed tables answered with an older state: how long at most there have been newer commits.",
    buckets=(1, 5, 15, 60, 300, 900, 3600, 14400, 86400),
)
FENCED_COMMITS = Counter(
    "firn_fenced_commits_total", "Commits refused because their writer was fenced.", ["catalog", "table"]
)
LINEAGE_EVENTS = Counter("firn_lineage_events_total", "OpenLineage events of runs of pipelines.", ["outcome"])
NOTIFICATIONS = Counter(
    "firn_notifications_total", "Attempts to send messages of notifications.", ["channel", "outcome"]
)

_SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The variable with the directory of the shared files, which the library reads at its import."""


def share_counts(directory: Path) -> None:
    """Create the shared files for processes that start later, with all counts at zero."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(mode=0o700)
    os.environ[_SHARED] = str(directory)


@dataclass(frozen=True, slots=True)
class Figures:
    """One metric from the database, with a value for each combination of label values."""

    name: str
    means: str
    labels: Sequence[str]
    values: Mapping[tuple[str, ...], float]


def build_exposition(jobs: Mapping[str, int], optimizers: Mapping[str, int], more: Sequence[Figures] = ()) -> bytes:
    """Build the Prometheus text from the counts of all processes and the figures of the database."""
    counted = REGISTRY
    if _SHARED in os.environ:
        counted = CollectorRegistry()
        counted.register(_SharedCounts(Path(os.environ[_SHARED])))
    from_database = CollectorRegistry()
    from_database.register(_DatabaseFigures(jobs, optimizers, more))
    return generate_latest(counted) + generate_latest(from_database)


@dataclass(frozen=True, eq=False)
class _SharedCounts(Collector):
    directory: Path

    def collect(self) -> Iterable[Metric]:
        # A starting worker creates a file before it sets its size, and the library cannot read an empty one.
        files = [str(file) for file in self.directory.glob("*.db") if file.stat().st_size]
        merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]  # the library's
        return merged


@dataclass(frozen=True, eq=False)
class _DatabaseFigures(Collector):
    jobs: Mapping[str, int]
    optimizers: Mapping[str, int]
    more: Sequence[Figures]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        for figures in (
            Figures("firn_jobs", "Active jobs by status.", ("status",), _by_label(self.jobs)),
            Figures("firn_optimizers", "Registered optimizers by group.", ("group",), _by_label(self.optimizers)),
            *self.more,
        ):
            family = GaugeMetricFamily(figures.name, figures.means, labels=figures.labels)
            for labels, value in figures.values.items():
                family.add_metric(labels, value)
            yield family


def _by_label(counts: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return {(label,): float(count) for label, count in counts.items()}
