"""The samples of a series: how many stay, what they say later, and trends over one and several of them."""

from __future__ import annotations

import random

import pytest

from catalog.trends.sample import Flows, Gauges, Sample, clamp
from catalog.trends.series import DAY, FINE, HOUR, MOST_SAMPLES, Series, begin_of_sample
from catalog.trends.trend import MOST_POINTS, build_trend
from firn.protocol.trends import Measure

START = 1_700_000_000 // DAY * DAY


def rows(count: int, **more: int) -> Gauges:
    return Gauges(tables=1, rows=count, health_sum=90, **more)


def test_a_gauge_keeps_its_value_and_is_written_only_when_it_changes() -> None:
    series = Series().put_gauges(START, rows(1))
    assert series.put_gauges(START + FINE, rows(1)) is series
    assert series.put_gauges(START, rows(1)) is series
    later = series.put_gauges(START + 3 * FINE, rows(2)).put_gauges(START + 3 * FINE, rows(3))
    assert [(sample.at, sample.gauges.rows) for sample in later.samples] == [(START, 1), (START + 3 * FINE, 3)]


def test_flows_are_set_not_added_so_a_repeated_run_changes_nothing() -> None:
    series = Series().put_gauges(START, rows(1)).put_gauges(START + 2 * FINE, rows(2))
    once = series.put_flows(START + FINE, Flows(jobs=2))
    assert once.put_flows(START + FINE, Flows(jobs=2)) == once
    assert once.samples[1] == Sample(START + FINE, rows(1), Flows(jobs=2))
    assert series.put_flows(START + FINE, Flows()) is series
    assert Series().put_flows(START, Flows(jobs=1)).samples == (Sample(START, Gauges(), Flows(jobs=1)),)


@pytest.mark.parametrize("seed", range(3))
def test_a_series_is_bounded_and_loses_no_flow_within_two_years(seed: int) -> None:
    """Three years with a change in every fine sample of the last days, and in most days before."""
    rng, series, jobs = random.Random(seed), Series(), 0
    now = START + 1_000 * DAY
    times = [START + day * DAY + rng.randrange(DAY) for day in range(997)]
    times += range(now - 3 * DAY, now, FINE)
    for at in times:
        begin, count = begin_of_sample(at), rng.randrange(3)
        series = series.put_gauges(begin, rows(at)).put_flows(begin, Flows(jobs=count)).compact_hourly(at)
        jobs += count if at > now - 720 * DAY else 0
        assert len(series.samples) <= MOST_SAMPLES
    ats = [sample.at for sample in series.samples]
    assert ats == sorted(set(ats))
    trend = build_trend([series], [Measure.ROWS, Measure.JOBS], now - 720 * DAY, now)
    assert trend.values[Measure.ROWS][-1] == now - FINE
    assert abs(sum(filter(None, trend.values[Measure.JOBS])) - jobs) <= 14  # the first point begins on a whole week
    assert Series.from_json(series.as_json()) == series
    assert series.compact(now) == series.compact(now).compact(now)


def test_the_newest_state_stays_however_old_it_is() -> None:
    series = Series().put_gauges(START, rows(1)).put_gauges(START + DAY, rows(2)).compact(START + 900 * DAY)
    assert [sample.gauges.rows for sample in series.samples] == [2]
    trend = build_trend([series], [Measure.ROWS], START + 890 * DAY, START + 900 * DAY)
    assert set(trend.values[Measure.ROWS]) == {2}


def test_a_trend_has_few_points_of_equal_distance_and_ends_now() -> None:
    series = Series()
    for hour in range(24 * 30):
        series = series.put_gauges(START + hour * HOUR, rows(hour))
    now = START + 30 * DAY + 17
    trend = build_trend([series], [Measure.ROWS, Measure.HEALTH], START, now)
    assert 30 <= len(trend.times) <= MOST_POINTS
    assert len({after - before for before, after in zip(trend.times, trend.times[1:-1], strict=False)}) == 1
    assert trend.times[-1] == now + 1
    assert trend.values[Measure.ROWS][-1] == 24 * 30 - 1
    assert set(trend.values[Measure.HEALTH]) == {90.0}


@pytest.mark.parametrize("age", [1, HOUR, DAY - 1, DAY, 7 * DAY, 8 * DAY, 91 * DAY, 92 * DAY, 728 * DAY, 9_000 * DAY])
def test_a_trend_of_any_length_has_few_points(age: int) -> None:
    for now in (START, START + 17):
        series = Series().put_gauges(begin_of_sample(now - age), rows(1))
        trend = build_trend([series], [Measure.ROWS], now - age, now)
        assert 1 <= len(trend.times) <= MOST_POINTS
        assert (trend.times[-1], trend.values[Measure.ROWS][-1]) == (now + 1, 1)


def test_several_series_are_added_and_the_health_is_their_average() -> None:
    old = Series().put_gauges(START, Gauges(tables=3, rows=10, health_sum=270, unpublished_since=START + 50))
    new = Series().put_gauges(START + 2 * HOUR, Gauges(tables=1, rows=5, health_sum=50, unpublished_since=START + 20))
    new = new.put_flows(START + 2 * HOUR, Flows(scans=2, planning_ms=300, jobs=1, job_ms=1_500))
    trend = build_trend([old, new], list(Measure), START, START + 3 * HOUR)
    last = {measure: values[-1] for measure, values in trend.values.items()}
    assert (last[Measure.TABLES], last[Measure.ROWS], last[Measure.HEALTH]) == (4, 15, 80.0)
    assert trend.values[Measure.TABLES][0] == 3
    assert last[Measure.PUBLISH_LAG] == 3 * HOUR + 1 - 20
    assert [value for value in trend.values[Measure.PLANNING_MS] if value is not None] == [150.0]
    assert sum(filter(None, trend.values[Measure.JOB_SECONDS])) == 1.5
    assert trend.flows.jobs == 1


def test_without_samples_there_is_one_point_without_values() -> None:
    trend = build_trend([Series()], [Measure.ROWS, Measure.JOBS], START, START + DAY)
    assert (trend.values[Measure.ROWS], trend.values[Measure.JOBS]) == ([None], [0])
    assert build_trend([], [Measure.ROWS], START, START + DAY).values == {Measure.ROWS: []}


@pytest.mark.parametrize(
    ("value", "expected"),
    [(float("nan"), 0), (float("inf"), 2**62), (-(10**30), -(2**62)), ("9", 0), (None, 0), (True, 1), (1.9, 1)],
)
def test_numbers_of_others_are_clamped(value: object, expected: int) -> None:
    assert clamp(value) == expected
