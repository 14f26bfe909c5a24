"""Savings: products of scans and removed files, table by table, and nothing where nothing is known."""

from __future__ import annotations

from dataclasses import asdict

from catalog.trends.sample import HIGHEST, NO_GAUGES, NOTHING, Flows, Sample, add_flows
from catalog.trends.savings import OPENING_MS, REMOVED_FOR, compute_savings, count_openings
from catalog.trends.series import FINE, Series

AT = 1_000_000_200 // FINE * FINE


def removed(at: int, files: int) -> Sample:
    return Sample(at, NO_GAUGES, Flows(jobs=1, files_removed=files))


def test_scans_count_the_files_that_were_removed_before() -> None:
    series = Series((removed(AT - REMOVED_FOR - FINE, 1_000), removed(AT - FINE, 7), removed(AT, 50)))
    counted = count_openings(series, AT, Flows(scans=3, files_removed=50))
    assert counted == Flows(scans=3, files_removed=50, openings_saved=21)
    again = series.put_flows(AT, counted)
    assert count_openings(again, AT, Flows(scans=3, files_removed=50)) == counted


def test_no_scans_save_nothing_and_huge_numbers_fit() -> None:
    assert count_openings(Series((removed(AT - FINE, 7),)), AT, NOTHING) == NOTHING
    huge = count_openings(Series((removed(AT - FINE, HIGHEST),)), AT, Flows(scans=HIGHEST))
    assert huge.openings_saved == HIGHEST


def test_tables_are_added_up_by_their_products() -> None:
    read = count_openings(Series((removed(AT - FINE, 2),)), AT, Flows(scans=10))
    unread = Flows(jobs=4, failed_jobs=1, job_ms=2_500, files_removed=1_000, bytes_removed=5, bytes_freed=6)
    savings = compute_savings(add_flows((read, unread)))
    assert asdict(savings) == {
        "files_removed": 1_000,
        "bytes_removed": 5,
        "bytes_freed": 6,
        "jobs": 4,
        "failed_jobs": 1,
        "job_seconds": 2.5,
        "scans": 10,
        "openings_saved": 20,
        "reader_seconds": 20 * OPENING_MS / 1_000,
    }


def test_without_scans_the_time_cannot_be_estimated() -> None:
    assert compute_savings(Flows(jobs=1, files_removed=5)).reader_seconds is None
    assert compute_savings(Flows(scans=1)).reader_seconds == 0


def test_samples_of_an_earlier_version_have_no_openings() -> None:
    stored = Series((removed(AT, 1),)).as_json()
    stored[0][2] = stored[0][2][:8]
    assert Series.from_json(stored).samples[0].flows == Flows(jobs=1, files_removed=1)
