"""The task that samples trends, and what readers see of them: tables, namespaces and catalogs, on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from catalog.access.privileges import Grant, Privilege, Rights, Securable
from catalog.errors import Invalid, NoSuchCatalog, NoSuchNamespace
from catalog.history.metrics import MetricsReport, ReportKind
from catalog.jobs.job import JobKind, JobStatus
from catalog.names import CatalogName, Namespace, TableName
from firn.protocol.trends import Measure
from server.service.access.visibility import Visibility
from server.service.trends.sampling import CATCH_UP
from server.service.trends.trends import ShownTrend, TrendRequest
from tests.factories import LAKE, a_job
from tests.server.clocks import HOUR, Clock
from tests.server.faults import Killed
from tests.server.lake import CHANGE, ORDERS, PLAIN, Lake

EVERYBODY = Visibility(None)
WEEK = TrendRequest()
SAMPLE = timedelta(minutes=10)


def sample(lake: Lake) -> Any:
    lake.services.planner_loop.run_once()
    return lake.services.trend_sampling.run_once()


def last(shown: ShownTrend, measure: Measure) -> Any:
    values = shown.trend.values[measure]
    return values[-1] if values else None


def total(shown: ShownTrend, measure: Measure) -> float:
    return sum(value or 0 for value in shown.trend.values[measure])


def of_scope(lake: Lake, namespace: Namespace = (), visible: Visibility = EVERYBODY) -> ShownTrend:
    return lake.services.trends.of_scope(LAKE, namespace, visible, WEEK)


def of_table(lake: Lake, name: TableName = PLAIN) -> ShownTrend:
    return lake.services.trends.of_table(LAKE, name, WEEK)


def end_job(lake: Lake, name: TableName, status: JobStatus = JobStatus.SUCCEEDED, **more: Any) -> None:
    with lake.services.database.writing() as uow:
        now = uow.now()
        relation = uow.relations.find(LAKE, name)
        assert relation is not None
        uow.jobs.add(
            a_job(
                status,
                subject_id=relation.id,
                table=name,
                kind=JobKind.REWRITE,
                leased_at=now - timedelta(seconds=30),
                ended_at=now,
                created_at=now,
                **more,
            )
        )


def report_scan(lake: Lake, name: TableName, planning: Any) -> None:
    with lake.services.database.writing() as uow:
        relation = uow.relations.find(LAKE, name)
        assert relation is not None
        metric = {"total-planning-duration": {"time-unit": "milliseconds", "total-duration": planning}}
        report = MetricsReport(
            relation_id=relation.id,
            catalog=LAKE,
            table=name,
            kind=ReportKind.SCAN,
            at=uow.now(),
            engine="spark",
            principal=None,
            report={"metrics": metric if planning != "nonsense" else "nonsense"},
        )
        uow.metrics.add([report])


def test_totals_of_catalog_and_namespaces_follow_commits_and_drops(lake: Lake, clock: Clock) -> None:
    lake.services.namespaces.create(LAKE, ("db", "eu"), {})
    eu = TableName(("db", "eu"), "sales")
    lake.create(PLAIN)
    lake.create(eu)
    lake.create_keyed(ORDERS)
    lake.append(PLAIN, rows=10)
    lake.append(eu, rows=5)
    lake.append(CHANGE, rows=7)
    sample(lake)
    for namespace, rows, tables in (((), 15, 3), (("db",), 15, 3), (("db", "eu"), 5, 1)):
        shown = of_scope(lake, namespace)
        assert (last(shown, Measure.ROWS), last(shown, Measure.TABLES)) == (rows, tables)
    assert last(of_scope(lake), Measure.PENDING_ROWS) == 7
    assert sample(lake).scopes == 0
    clock.wrong = HOUR
    lake.services.tables.drop(LAKE, eu)
    assert sample(lake).scopes == 3
    shown = of_scope(lake)
    assert (last(shown, Measure.ROWS), last(shown, Measure.TABLES)) == (10, 2)
    assert max(value or 0 for value in shown.trend.values[Measure.ROWS]) == 15
    assert last(of_scope(lake, ("db", "eu")), Measure.TABLES) == 0
    lake.services.namespaces.drop(LAKE, ("db", "eu"))
    sample(lake)
    with pytest.raises(NoSuchNamespace):
        of_scope(lake, ("db", "eu"))
    with lake.services.database.reading() as uow:
        assert set(uow.trends.scope_states(LAKE)) == {(), ("db",)}


def test_a_table_is_sampled_when_something_changes_and_shows_its_state_now(lake: Lake, clock: Clock) -> None:
    lake.create(PLAIN)
    lake.append(PLAIN, rows=10)
    assert sample(lake).tables == 1
    assert last(of_table(lake), Measure.ROWS) == 10
    clock.wrong += SAMPLE * 2
    assert sample(lake).tables == 0
    lake.append(PLAIN, rows=10)
    lake.services.planner_loop.run_once()
    assert last(of_table(lake), Measure.ROWS) == 20  # before the next sample
    clock.wrong += SAMPLE * 2
    assert sample(lake).tables == 1
    assert of_table(lake).trend.values[Measure.ROWS][0] == 10
    clock.wrong += timedelta(days=400)
    assert last(of_table(lake), Measure.ROWS) == 20


def test_jobs_and_scans_count_once_also_after_a_crash(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create(PLAIN)
    lake.create_keyed(ORDERS)
    lake.append(PLAIN)
    sample(lake)
    gained = {"files_before": 100, "files_after": 10, "deletes_before": 3, "deletes_after": 0, "bytes_before": "x"}
    end_job(lake, PLAIN, result={"gained": gained, "freed_bytes": 500})
    end_job(lake, PLAIN, JobStatus.FAILED, result={"gained": gained})
    end_job(lake, PLAIN, JobStatus.CANCELED)
    for planning in (100, 300, -5, 10**12, 1e300, "9", None, "nonsense"):
        report_scan(lake, PLAIN, planning)
    report_scan(lake, CHANGE, 50)
    clock.wrong += timedelta(minutes=12)

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("server.store.trends.SqlTrends.set_position", die)
        with pytest.raises(Killed):
            lake.services.trend_sampling.run_once()
    for _ in range(3):
        sample(lake)
    for shown in (of_table(lake), of_scope(lake), of_scope(lake, ("db",))):
        assert (total(shown, Measure.JOBS), total(shown, Measure.FAILED_JOBS)) == (2, 1)
        assert total(shown, Measure.JOB_SECONDS) == 60
        assert (total(shown, Measure.FILES_REMOVED), total(shown, Measure.BYTES_FREED)) == (93, 500)
    plannings = [value for value in of_table(lake).trend.values[Measure.PLANNING_MS] if value is not None]
    assert plannings == [200.0]
    assert total(of_table(lake, ORDERS), Measure.SCANS) == 1
    assert total(of_scope(lake), Measure.SCANS) == 3


def test_scans_after_a_job_save_openings_in_the_table_and_above_it(lake: Lake, clock: Clock) -> None:
    other = TableName(("db",), "other")
    for name in (PLAIN, other):
        lake.create(name)
        lake.append(name)
    sample(lake)
    end_job(lake, PLAIN, result={"gained": {"files_before": 100, "files_after": 10}})
    report_scan(lake, PLAIN, 10)  # in the time of the job: whether before or after it is not known
    clock.wrong += SAMPLE * 2
    sample(lake)
    for _ in range(3):
        report_scan(lake, PLAIN, 10)
    report_scan(lake, other, 10)
    clock.wrong += SAMPLE * 2
    for _ in range(2):
        sample(lake)
    assert of_table(lake, other).trend.flows.openings_saved == 0
    for shown in (of_table(lake), of_scope(lake), of_scope(lake, ("db",))):
        assert shown.trend.flows.openings_saved == 3 * 90


def test_after_a_long_pause_the_task_goes_back_only_so_far(lake: Lake, clock: Clock) -> None:
    lake.create(PLAIN)
    lake.append(PLAIN)
    sample(lake)
    end_job(lake, PLAIN)
    clock.wrong += CATCH_UP + HOUR
    end_job(lake, PLAIN)
    clock.wrong += SAMPLE * 2
    sample(lake)
    assert total(of_table(lake), Measure.JOBS) == 1


def test_a_reader_sees_the_sum_of_what_she_may_read(lake: Lake) -> None:
    lake.services.namespaces.create(LAKE, ("crm",), {})
    mine, other = TableName(("crm",), "mine"), TableName(("crm",), "other")
    for name, count in ((PLAIN, 1), (mine, 20), (other, 300)):
        lake.create(name)
        lake.append(name, rows=count)
    sample(lake)

    def rows(*grants: Grant, namespace: Namespace = ()) -> Any:
        return last(of_scope(lake, namespace, Visibility(Rights.of(grants))), Measure.ROWS)

    read, crm = Privilege.READ, Securable(LAKE, ("crm",))
    grant = Securable.of(LAKE, mine)
    assert rows(Grant(Securable(LAKE), read)) == 321
    assert rows(Grant(crm, read)) == rows(Grant(crm, read), Grant(grant, read)) == 320
    assert rows(Grant(grant, read)) == rows(Grant(grant, read), namespace=("crm",)) == 20
    assert rows(Grant(grant, read), Grant(Securable(LAKE, ("db",)), read)) == 21
    assert rows(Grant(crm, Privilege.LIST)) is None
    assert rows(Grant(grant, read), namespace=("db",)) is None
    assert rows(Grant(Securable(CatalogName("pond")), read)) is None
    assert rows(Grant(Securable.of(LAKE, TableName(("crm",), "gone")), read)) is None


@pytest.mark.parametrize(
    "since", ["yesterday", "", "7", "-3 d", "2026-01-01T00:00:00", "9999-01-01T00:00:00Z", "1e9 d"]
)
def test_an_impossible_begin_is_refused(lake: Lake, since: str) -> None:
    lake.create(PLAIN)
    with pytest.raises(Invalid):
        lake.services.trends.of_table(LAKE, PLAIN, TrendRequest(since=since))


def test_an_early_begin_and_an_unknown_catalog(lake: Lake) -> None:
    lake.create(PLAIN)
    sample(lake)
    early = TrendRequest(since="0001-01-01T00:00:00Z", measures=[Measure.TABLES])
    assert last(lake.services.trends.of_table(LAKE, PLAIN, early), Measure.TABLES) == 1
    with pytest.raises(NoSuchCatalog):
        lake.services.trends.of_scope(CatalogName("pond"), (), EVERYBODY, WEEK)


def test_samples_go_with_a_purged_table_and_with_a_dropped_catalog(lake: Lake) -> None:
    lake.create(PLAIN)
    sample(lake)
    with lake.services.database.writing() as uow:
        relation = uow.relations.find(LAKE, PLAIN)
        assert relation is not None
        assert uow.trends.tables([relation.id])
        uow.dropped.delete_state(relation.id)
        assert not uow.trends.tables([relation.id])
        uow.trends.delete_catalogs_but([])
        assert not uow.trends.scope_states(LAKE)


def test_very_large_counts_fit(lake: Lake) -> None:
    other = TableName(("db",), "other")
    lake.create(PLAIN)
    lake.create(other)
    sample(lake)
    with lake.services.database.writing() as uow:
        for name in (PLAIN, other):
            relation = uow.relations.find(LAKE, name)
            assert relation is not None
            status = uow.table_statuses.get_many([relation.id])[relation.id]
            uow.table_statuses.put([replace(status, rows=2**63 - 1, bytes=2**62)])
    lake.services.trend_sampling.run_once()
    shown = of_scope(lake)
    assert (last(shown, Measure.TABLES), last(shown, Measure.BYTES)) == (2, 2**62)
    with lake.services.database.reading() as uow:
        (scope,) = uow.trends.scopes(LAKE, [()])
    assert scope.series.latest is not None
    assert scope.series.latest.rows == 2**62


def test_a_summary_says_how_the_catalog_is_and_was(lake: Lake, clock: Clock) -> None:
    lake.create(PLAIN)
    lake.append(PLAIN, rows=10)
    sample(lake)
    end_job(lake, PLAIN, result={"gained": {"files_before": 9, "files_after": 2}})
    lake.services.planner_loop.run_once()
    clock.wrong += timedelta(minutes=12)
    sample(lake)
    summary = lake.services.summaries.of_catalog(LAKE, EVERYBODY)
    assert summary.now is not None
    assert (summary.now.rows, summary.week_ago, summary.day.jobs, summary.week.files_removed) == (10, None, 1, 7)
    assert summary.counts is not None
    assert (summary.counts.tables, list(summary.counts.fresh)) == (1, [1, 1, 1])
    assert summary.worst == []
    assert summary.shown.trend.values[Measure.ROWS][-1] == 10
    clock.wrong += timedelta(days=8)
    later = lake.services.summaries.of_catalog(LAKE, EVERYBODY)
    assert later.week_ago is not None
    assert (later.week_ago.rows, later.day.jobs, later.week.jobs) == (10, 0, 0)
    assert later.counts is not None
    assert list(later.counts.fresh) == [0, 0, 0]


def test_a_summary_counts_jobs_before_and_after_their_sample(lake: Lake, clock: Clock) -> None:
    other = TableName(("db",), "other")
    for name in (PLAIN, other):
        lake.create(name)
        lake.append(name)
    lake.create_keyed(ORDERS)
    sample(lake)
    part = Visibility(Rights.of([Grant(Securable.of(LAKE, ORDERS), Privilege.READ)]))

    def count(visible: Visibility) -> tuple[int, int]:
        summary = lake.services.summaries.of_catalog(LAKE, visible)
        return summary.day.jobs, summary.week.failed_jobs

    assert count(EVERYBODY) == (0, 0)
    end_job(lake, other, JobStatus.FAILED)
    end_job(lake, CHANGE)
    assert (count(EVERYBODY), count(part)) == ((2, 1), (1, 0))
    clock.wrong += timedelta(minutes=12)
    assert (count(EVERYBODY), count(part)) == ((2, 1), (1, 0))
    sample(lake)
    assert (count(EVERYBODY), count(part)) == ((2, 1), (1, 0))


def test_a_summary_shows_a_reader_of_parts_only_these(lake: Lake) -> None:
    other = TableName(("db",), "other")
    for name, count in ((PLAIN, 10), (other, 300)):
        lake.create(name)
        lake.append(name, rows=count)
    sample(lake)
    with lake.services.database.writing() as uow:
        for name, health in ((PLAIN, 40), (other, 20)):
            relation = uow.relations.find(LAKE, name)
            assert relation is not None
            status = uow.table_statuses.get_many([relation.id])[relation.id]
            uow.table_statuses.put([replace(status, health=health)])
    everything = lake.services.summaries.of_catalog(LAKE, EVERYBODY)
    assert [str(relation.name) for relation, _ in everything.worst] == ["db.other", str(PLAIN)]
    assert everything.counts is not None
    assert everything.counts.by_health == {"good": 0, "fair": 0, "poor": 2}
    grant = Visibility(Rights.of([Grant(Securable.of(LAKE, PLAIN), Privilege.READ)]))
    summary = lake.services.summaries.of_catalog(LAKE, grant)
    assert [str(relation.name) for relation, _ in summary.worst] == [str(PLAIN)]
    assert summary.counts is None
    assert summary.now is not None
    assert summary.now.rows == 10
    nothing = lake.services.summaries.of_catalog(LAKE, Visibility(Rights.of([])))
    assert (nothing.now, nothing.worst, nothing.shown.trend.times) == (None, [], [])
