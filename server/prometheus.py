"""What `/metrics` tells: counts of this process and of its siblings, and what the database knows when it is asked.

Several workers answer at one port and a scrape meets any of them: they count in files that all of them can read.
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

_SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""By this variable the library learns, when it is imported, to count in files of this directory."""


def share_counts(directory: Path) -> None:
    """Let the processes that are started from here on count together, from zero."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(mode=0o700)
    os.environ[_SHARED] = str(directory)


@dataclass(frozen=True, slots=True)
class Figures:
    """One metric as the database knows it: a figure for each combination of its labels' values."""

    name: str
    means: str
    labels: Sequence[str]
    values: Mapping[tuple[str, ...], float]


def exposition(jobs: Mapping[str, int], optimizers: Mapping[str, int], more: Sequence[Figures] = ()) -> bytes:
    """Prometheus text, with jobs by status, optimizers by group, and what else the database knows."""
    counted = REGISTRY
    if _SHARED in os.environ:
        counted = CollectorRegistry()
        counted.register(_CountedTogether(Path(os.environ[_SHARED])))
    known = CollectorRegistry()
    known.register(_Known(jobs, optimizers, more))
    return generate_latest(counted) + generate_latest(known)


@dataclass(frozen=True, eq=False)
class _CountedTogether(Collector):
    directory: Path

    def collect(self) -> Iterable[Metric]:
        # A worker that starts makes a file and then gives it its size: the library cannot read one that is empty.
        files = [str(file) for file in self.directory.glob("*.db") if file.stat().st_size]
        merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]  # the library's
        return merged


@dataclass(frozen=True, eq=False)
class _Known(Collector):
    jobs: Mapping[str, int]
    optimizers: Mapping[str, int]
    more: Sequence[Figures]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        for figures in (
            Figures("firn_jobs", "Active jobs by where they stand.", ("status",), _each(self.jobs)),
            Figures("firn_optimizers", "Registered optimizers by group.", ("group",), _each(self.optimizers)),
            *self.more,
        ):
            family = GaugeMetricFamily(figures.name, figures.means, labels=figures.labels)
            for labels, value in figures.values.items():
                family.add_metric(labels, value)
            yield family


def _each(counts: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return {(label,): float(count) for label, count in counts.items()}
