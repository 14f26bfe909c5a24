"""A trend: measures at times of equal distance, from one series or the sum of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from catalog.trends.sample import Flows, Gauges, add_flows, add_gauges
from catalog.trends.series import LONGEST, OLDEST, Series, fill, find_length
from firn.protocol.trends import Measure

MOST_POINTS = 170

Value = int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Times in epoch seconds, and the values of each measure at these times; None where there is no value.

    A measure of what happened, such as job time, has the sum since the time before.
    """

    times: Sequence[int]
    values: Mapping[Measure, Sequence[Value]]
    flows: Flows
    """What happened during all of it."""


def build_trend(series: Sequence[Series], measures: Sequence[Measure], since: float, now: float) -> Trend:
    """The trend of all these series together, from the first sample on if that is later."""
    times = choose_times(series, since, now)
    rows = [_add_up(parts) for parts in zip(*(fill(samples, times) for samples in series), strict=True)]
    points = list(zip(times, rows, strict=True))[1:] if rows else []
    return Trend(
        times=[at for at, _ in points],
        values={measure: [_READ[measure](at, *row) for at, row in points] for measure in measures},
        flows=add_flows(flows for _, (_, flows) in points),
    )


def choose_times(series: Sequence[Series], since: float, now: float) -> list[int]:
    """At most MOST_POINTS times after the first, which only begins the first point; the last is now.

    Their distance is the length of the oldest samples among them: a shorter one would show gaps.
    """
    first = min((member.samples[0].at for member in series if member.samples), default=now)
    begin = max(since, first, now - OLDEST)
    step = find_length(now - begin - 1) or LONGEST
    end = int(now) // step * step
    begin = int(begin) // step * step
    inner = [at for at in range(begin, end + 1, step) if at <= now]
    return [*inner, int(now) + 1]


def _add_up(parts: Sequence[tuple[Gauges | None, Flows]]) -> tuple[Gauges | None, Flows]:
    known = [gauges for gauges, _ in parts if gauges is not None]
    return add_gauges(known) if known else None, add_flows(flows for _, flows in parts)


_Read = Callable[[int, Gauges | None, Flows], Value]


def _gauge(name: str) -> _Read:
    def read(_at: int, gauges: Gauges | None, _flows: Flows) -> Value:
        return None if gauges is None else int(getattr(gauges, name))

    return read


def _flow(name: str) -> _Read:
    def read(_at: int, _gauges: Gauges | None, flows: Flows) -> Value:
        return int(getattr(flows, name))

    return read


def read_health(gauges: Gauges) -> float | None:
    """The average health of the tables."""
    return round(gauges.health_sum / gauges.tables, 1) if gauges.tables else None


def _read_lag(at: int, gauges: Gauges | None, _flows: Flows) -> Value:
    if gauges is None:
        return None
    return max(at - gauges.unpublished_since, 0) if gauges.unpublished_since else 0


def _read_planning(_at: int, _gauges: Gauges | None, flows: Flows) -> Value:
    return round(flows.planning_ms / flows.scans, 1) if flows.scans else None


def _read_job_seconds(_at: int, _gauges: Gauges | None, flows: Flows) -> Value:
    return round(flows.job_ms / 1_000, 1)


_READ: Mapping[Measure, _Read] = {
    Measure.TABLES: _gauge("tables"),
    Measure.ROWS: _gauge("rows"),
    Measure.BYTES: _gauge("bytes"),
    Measure.FILES: _gauge("files"),
    Measure.SMALL_FILES: _gauge("small_files"),
    Measure.HEALTH: lambda _at, gauges, _flows: None if gauges is None else read_health(gauges),
    Measure.PENDING_ROWS: _gauge("pending_rows"),
    Measure.PUBLISH_LAG: _read_lag,
    Measure.SCANS: _flow("scans"),
    Measure.PLANNING_MS: _read_planning,
    Measure.JOBS: _flow("jobs"),
    Measure.FAILED_JOBS: _flow("failed_jobs"),
    Measure.JOB_SECONDS: _read_job_seconds,
    Measure.FILES_REMOVED: _flow("files_removed"),
    Measure.BYTES_FREED: _flow("bytes_freed"),
}
