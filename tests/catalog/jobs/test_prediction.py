"""What jobs are expected to gain and to cost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given

from catalog.jobs.job import Job, JobKind
from catalog.jobs.prediction import QUANTITIES, Prediction
from catalog.maintenance import predict_job
from catalog.planning import TableFacts
from catalog.policy.policy import merge_layers
from catalog.tables.relation import TableStats
from tests.catalog.planning.tables import KEYED, ended, histories, plain, tables
from tests.factories import NOW, a_keyed_table

MIB = 2**20


def changes(gain: Prediction) -> dict[str, tuple[int, int]]:
    """What changes, before and after."""
    pairs = {name: (getattr(gain, f"{name}_before"), getattr(gain, f"{name}_after")) for name in QUANTITIES}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def test_small_files_become_full_ones() -> None:
    gain = predict_job(JobKind.REWRITE, plain(data_files=100, small_files=100, bytes=256 * MIB), ())
    assert changes(gain) == {"files": (100, 2)}
    assert gain.work == 256 * MIB


def test_a_rewrite_for_deletes_leaves_them_and_their_rows_out() -> None:
    deleted: dict[str, Any] = {"records": 1000, "position_deletes": 250, "delete_files": 10, "data_files": 10}
    facts = plain(format_version=3, bytes=1000 * MIB, **deleted)
    gain = predict_job(JobKind.REWRITE, facts, (), {"because": "deletes", "apply_deletes": True})
    assert changes(gain) == {"bytes": (1000 * MIB, 750 * MIB), "deletes": (10, 0)}


def test_a_rewrite_does_as_much_as_one_job_may() -> None:
    facts = plain({"firn.rewrite.max-job-size": "64 MiB"}, data_files=100, small_files=100, bytes=6400 * MIB)
    assert predict_job(JobKind.REWRITE, facts, ()).work == 64 * MIB


def test_a_merge_takes_the_files_of_the_change_store_away() -> None:
    facts = TableFacts(
        policy=merge_layers([]),
        stats=TableStats(relation_id=KEYED.base_id, data_files=10, bytes=500 * MIB),
        keyed=a_keyed_table(pending_rows=100, pending_bytes=5 * MIB, pending_commits=7),
        change=TableStats(relation_id=KEYED.change_id, data_files=7, bytes=5 * MIB, records=100),
    )
    assert changes(predict_job(JobKind.MERGE, facts, ())) == {"files": (17, 10), "bytes": (505 * MIB, 500 * MIB)}


def test_position_deletes_are_packed() -> None:
    for data_files, left in ((5, 5), (1000, 20)):
        gain = predict_job(
            JobKind.REWRITE_DELETES, plain(data_files=data_files, delete_files=40, position_deletes=400), ()
        )
        assert changes(gain) == {"deletes": (40, left)}


@given(facts=tables(), past=histories())
def test_no_prediction_makes_a_table_worse_or_is_below_nothing(facts: TableFacts, past: list[Job]) -> None:
    for kind in JobKind:
        gain = predict_job(kind, facts, past)
        for name in QUANTITIES:
            assert 0 <= getattr(gain, f"{name}_after") <= getattr(gain, f"{name}_before")
        assert gain.seconds > 0
        assert gain.work >= 0


def rewrites(*seconds: float) -> list[Job]:
    """Rewrites of the same size that took so long; newest first."""
    before = predict_job(JobKind.REWRITE, plain(data_files=9, small_files=9, bytes=300 * MIB), ()).as_json()
    return [ended(JobKind.REWRITE, predicted=before, ended_at=NOW + timedelta(seconds=second)) for second in seconds]


def test_the_cost_goes_by_how_long_such_jobs_have_taken_on_this_table() -> None:
    facts = plain(data_files=9, small_files=9, bytes=300 * MIB)
    prior = predict_job(JobKind.REWRITE, facts, ()).seconds
    assert 5 < prior < 60
    assert predict_job(JobKind.REWRITE, facts, rewrites(99, 100, 5000)).seconds == 100
    assert predict_job(JobKind.REWRITE, facts, rewrites(*[20] * 5, *[900] * 20)).seconds == 20
    double = plain(data_files=9, small_files=9, bytes=600 * MIB)
    assert 150 < predict_job(JobKind.REWRITE, double, rewrites(100)).seconds < 200


def test_jobs_that_tell_nothing_of_their_size_are_no_measure() -> None:
    facts = plain(data_files=9, small_files=9, bytes=300 * MIB)
    unknown = [ended(JobKind.REWRITE, ended_at=NOW + timedelta(hours=9))]
    assert predict_job(JobKind.REWRITE, facts, unknown) == predict_job(JobKind.REWRITE, facts, ())
    assert predict_job(JobKind.REWRITE, facts, [ended(JobKind.MERGE, predicted={"work": 1})]).seconds < 60
