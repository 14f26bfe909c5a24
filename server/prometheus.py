"""What `/metrics` tells: counts of this process and of its siblings, and what the database knows when it is asked.

Several workers answer at one port and a scrape meets any of them: they count in files that all of them can read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
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
    directory.mkdir()
    os.environ[_SHARED] = str(directory)


def exposition(jobs: Mapping[str, int], optimizers: Mapping[str, int]) -> bytes:
    """Prometheus text, with jobs by status and optimizers by group."""
    counted = REGISTRY
    if _SHARED in os.environ:
        counted = CollectorRegistry()
        counted.register(_CountedTogether(Path(os.environ[_SHARED])))
    known = CollectorRegistry()
    known.register(_Known(jobs, optimizers))
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

    def collect(self) -> Iterable[GaugeMetricFamily]:
        yield _gauge("firn_jobs", "Jobs by where they stand.", "status", self.jobs)
        yield _gauge("firn_optimizers", "Registered optimizers by group.", "group", self.optimizers)


def _gauge(name: str, means: str, label: str, values: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, means, labels=[label])
    for value, count in values.items():
        family.add_metric([value], count)
    return family
