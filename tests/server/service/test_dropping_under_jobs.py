"""A table that a job waits for, or works on, can be dropped; its job can then do nothing more."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from catalog.errors import CatalogError, CommitUnknown, Conflict, LeaseLost, NoSuchTable, Protected, Unavailable
from catalog.history.commit import Outcome
from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.jobs.leases import Lease, mark_unknown
from catalog.names import TableName
from catalog.policy.policy import PROTECTED
from server.service.planning.planner import create_requested_job, find_planned_relation, load_facts
from tests.factories import LAKE
from tests.server.lake import BASE, CHANGE, ORDERS, PLAIN, Lake, altered, appended, merged, set_property, snapshot_ids
from tests.server.service.dropping import append_files, listed

ROUNDS = 8
MOVED = TableName(("db",), "moved")


def drop(lake: Lake, name: TableName) -> None:
    lake.services.drop(LAKE, name)


def drop_by_purge(lake: Lake, name: TableName) -> None:
    lake.services.drop(LAKE, name, purge=True)


def drop_with_namespace(lake: Lake, _name: TableName) -> None:
    lake.services.recursive_drops.drop(LAKE, ("db",))


def unregister(lake: Lake, name: TableName) -> None:
    lake.services.tables.unregister(LAKE, name)


def overwrite(lake: Lake, name: TableName) -> None:
    location = lake.services.tables.load(LAKE, name).metadata_location
    assert location is not None
    lake.services.tables.register(LAKE, name, location, overwrite=True)


PLAIN_DROPS = [drop, drop_by_purge, drop_with_namespace, unregister, overwrite]
KEYED_DROPS = [drop, drop_by_purge, drop_with_namespace]


def bring_back(lake: Lake) -> None:
    """The newest drop, whose files these tests do without."""
    entry = listed(lake)[0]
    lake.services.undrops._bring_back(entry, [entry], None, dry_run=False)


def find_job(lake: Lake, job: Job) -> Job:
    with lake.services.database.reading() as uow:
        return uow.jobs.get(job.id)


def active(lake: Lake) -> list[Job]:
    with lake.services.database.reading() as uow:
        return list(uow.jobs.with_status([job_status for job_status in JobStatus if job_status.is_active]))


@pytest.mark.parametrize("leave", PLAIN_DROPS)
def test_drop_table_failed_for_ever_while_a_job_was_queued_and_no_optimizer_ran(
    lake: Lake, leave: Callable[[Lake, TableName], None]
) -> None:
    lake.create()
    append_files(lake)
    job = lake.services.planner.run_now(LAKE, PLAIN, JobKind.REWRITE, {})
    leave(lake, PLAIN)
    gone = find_job(lake, job)
    assert (gone.status, gone.was_withdrawn) == (JobStatus.CANCELED, True)
    assert "db" in (gone.error or "")
    assert active(lake) == []


@pytest.mark.parametrize("leave", KEYED_DROPS)
def test_a_keyed_table_with_a_queued_merge_can_be_dropped(lake: Lake, leave: Callable[[Lake, TableName], None]) -> None:
    lake.create_keyed()
    lake.append(CHANGE)
    job = lake.services.planner.run_now(LAKE, ORDERS, JobKind.MERGE, {})
    leave(lake, ORDERS)
    assert find_job(lake, job).status is JobStatus.CANCELED


def test_no_new_job_is_planned_for_a_dropped_table_and_one_is_after_the_undrop(lake: Lake) -> None:
    lake.create_keyed(ORDERS, **{"firn.merge.max-pending-commits": "1"})
    lake.append(CHANGE)
    lake.append(CHANGE)
    lake.services.planner_loop.run_once()
    (waiting,) = active(lake)
    drop(lake, ORDERS)
    lake.services.planner_loop.run_once()
    lake.services.planner_loop.plan_unassessed()
    lake.services.planner_loop.run_once()
    assert active(lake) == []
    with pytest.raises(NoSuchTable):
        lake.services.planner.run_now(LAKE, ORDERS, JobKind.MERGE, {})
    bring_back(lake)
    lake.services.planner_loop.run_once()
    (again,) = active(lake)
    assert (again.kind, again.id != waiting.id) == (waiting.kind, True)


def test_a_job_that_was_decided_upon_before_the_drop_is_not_added_after_it(lake: Lake) -> None:
    lake.create()
    with lake.services.database.reading() as uow:
        relation = find_planned_relation(uow, LAKE, PLAIN)
        facts = load_facts(uow, relation)
    drop(lake, PLAIN)
    with pytest.raises(Conflict, match="dropped"), lake.services.database.writing() as uow:
        create_requested_job(uow, relation, facts, JobKind.REWRITE, {}, "requested")
    assert active(lake) == []


@pytest.mark.parametrize("leave", KEYED_DROPS)
@pytest.mark.parametrize("committing", [False, True])
def test_a_leased_job_is_fenced_by_the_drop(
    lake: Lake, leave: Callable[[Lake, TableName], None], *, committing: bool
) -> None:
    lake.create_keyed()
    lake.append(CHANGE)
    lease, change = lake.lease(JobKind.MERGE, committing=committing), merged(lake)
    leave(lake, ORDERS)
    assert lake.job(lease).status is JobStatus.CANCELED
    for act in all_that_a_lease_allows(lake, lease):
        with pytest.raises(LeaseLost):
            act()
    with pytest.raises(NoSuchTable):
        lake.commit(change, lease=lease)


def all_that_a_lease_allows(lake: Lake, lease: Lease) -> list[Callable[[], object]]:
    """Beside commits: each is asked for before a job acts."""
    jobs = lake.services.jobs
    return [
        lambda: jobs.beat(lease, {}, []),
        lambda: jobs.begin_commit(lease),
        lambda: jobs.report(lease, Outcome.COMMITTED, error=None, result={}),
        lambda: lake.services.table_locations.list_locations(lease),
        lambda: lake.services.orphans.take(lease, [], []),
        lambda: lake.services.orphans.end_overdue(lease),
        lambda: lake.services.hive.published.accept(lease, "file:///nowhere", rows=0),
    ]


def test_a_fenced_job_does_not_commit_to_a_new_table_of_that_name_nor_after_the_undrop(lake: Lake) -> None:
    lake.create_keyed()
    lake.append(CHANGE)
    lease, change = lake.lease(JobKind.MERGE), merged(lake)
    drop(lake, ORDERS)
    lake.create_keyed()
    with pytest.raises(LeaseLost):
        lake.commit(change, lease=lease)
    lake.services.purges.purge(LAKE, lake.services.drop(LAKE, ORDERS).id, keep_files=True)
    bring_back(lake)
    with pytest.raises(LeaseLost):
        lake.commit(change, lease=lease)
    assert lake.metadata(BASE)["snapshots"] == []
    assert lake.keyed().pending_commits == 1


def test_a_job_whose_commit_came_before_the_drop_has_succeeded(lake: Lake) -> None:
    lake.create_keyed()
    lake.append(CHANGE)
    lease = lake.lease(JobKind.MERGE)
    lake.commit(merged(lake), lease=lease)
    drop(lake, ORDERS)
    assert lake.job(lease).status is JobStatus.SUCCEEDED
    bring_back(lake)
    assert lake.keyed().pending_commits == 0


@pytest.mark.parametrize("landed", [False, True])
def test_a_job_in_doubt_is_decided_by_its_record_when_its_table_is_dropped(lake: Lake, *, landed: bool) -> None:
    lake.create_keyed()
    lake.append(CHANGE)
    lease, change = lake.lease(JobKind.MERGE), merged(lake)
    with lake.services.database.writing() as uow:
        if not landed:
            uow.jobs.put(mark_unknown(uow.jobs.lock(lease.job_id), uow.now()))
    if landed:
        lake.commit(change, lease=lease)
    drop(lake, ORDERS)
    assert lake.job(lease).status is (JobStatus.SUCCEEDED if landed else JobStatus.CANCELED)


def test_commits_of_a_job_and_a_drop_at_once_end_as_one_after_the_other(lake: Lake) -> None:
    """The record of the job and the dropped table agree, whoever came first."""
    for _ in range(ROUNDS):
        lake.create_keyed()
        lake.append(CHANGE)
        lease, change = lake.lease(JobKind.MERGE), merged(lake)
        together, mine = Barrier(2), (lease, change)

        def commit(together: Barrier = together, mine: tuple[Lease, object] = mine) -> object:
            together.wait()
            try:
                return lake.commit(mine[1], lease=mine[0])  # type: ignore[arg-type]
            except CatalogError as error:
                return error

        def drops(together: Barrier = together) -> None:
            together.wait()
            drop(lake, ORDERS)

        with ThreadPoolExecutor(2) as pool:
            commits, dropping = pool.submit(commit), pool.submit(drops)
            dropping.result()
            landed = not isinstance(commits.result(), CatalogError)
        assert lake.job(lease).status is (JobStatus.SUCCEEDED if landed else JobStatus.CANCELED)
        bring_back(lake)
        assert lake.keyed().pending_commits == (0 if landed else 1)
        lake.services.purges.purge(LAKE, lake.services.drop(LAKE, ORDERS).id, keep_files=True)


def test_a_drop_that_is_refused_leaves_the_job_alone(lake: Lake) -> None:
    lake.create()
    lake.commit(altered(PLAIN, set_property(PROTECTED, "true")))
    job = lake.services.planner.run_now(LAKE, PLAIN, JobKind.REWRITE, {})
    for leave in (drop, unregister, overwrite, drop_with_namespace):
        with pytest.raises(Protected):
            leave(lake, PLAIN)
    assert find_job(lake, job).status is JobStatus.PENDING


def test_a_dry_run_of_a_recursive_drop_cancels_nothing(lake: Lake) -> None:
    lake.create()
    job = lake.services.planner.run_now(LAKE, PLAIN, JobKind.REWRITE, {})
    lake.services.recursive_drops.drop(LAKE, ("db",), dry_run=True)
    assert find_job(lake, job).status is JobStatus.PENDING


@pytest.mark.parametrize("recreated", [False, True])
def test_the_lost_answer_of_a_commit_before_the_drop_is_not_refused_after_it(lake: Lake, *, recreated: bool) -> None:
    """Told *no such table*, its client would delete the files, and the undrop would bring back a table without them."""
    lake.create()
    change = appended(PLAIN, lake.metadata(PLAIN))
    lake.commit(change)
    refused = appended(PLAIN, lake.metadata(PLAIN))
    drop(lake, PLAIN)
    if recreated:
        lake.create()
    with pytest.raises(CommitUnknown, match="dropped"):
        lake.commit(change)
    assert lake.services.committer.has_applied(LAKE, [change]) is not recreated
    with pytest.raises(CatalogError):
        lake.commit(refused)
    if recreated:
        lake.services.purges.purge(LAKE, lake.services.drop(LAKE, PLAIN).id, keep_files=True)
    bring_back(lake)
    lake.commit(change)  # it is there
    assert len(snapshot_ids(lake.metadata(PLAIN))) == 1


def test_the_lost_answer_of_a_merge_before_the_drop_is_not_refused_after_it(lake: Lake) -> None:
    lake.create_keyed()
    lake.append(CHANGE)
    lease, change = lake.lease(JobKind.MERGE), merged(lake)
    lake.commit(change, lease=lease)
    drop(lake, ORDERS)
    with pytest.raises(CommitUnknown):
        lake.commit(change, lease=lease)
    lake.create_keyed()
    with pytest.raises(CommitUnknown):
        lake.commit(change, lease=lease)


@pytest.mark.parametrize(("name", "kind"), [(PLAIN, JobKind.REWRITE), (ORDERS, JobKind.MERGE)])
def test_a_renamed_table_takes_its_queued_job_with_it(lake: Lake, name: TableName, kind: JobKind) -> None:
    lake.create()
    lake.create_keyed()
    job = lake.services.planner.run_now(LAKE, name, kind, {})
    rename = lake.services.tables.rename if name == PLAIN else lake.services.keyed.rename
    rename(LAKE, name, MOVED)
    renamed = find_job(lake, job)
    assert (renamed.status, renamed.table) == (JobStatus.PENDING, MOVED)
    leased_job = lake.services.jobs.take(lake.optimizer(), lake.kinds)
    assert leased_job is not None
    assert leased_job.job.id == job.id
    if name == ORDERS:
        with pytest.raises(Conflict, match="is running"):
            rename(LAKE, MOVED, name)


@pytest.mark.parametrize("error", [NoSuchTable("gone"), Unavailable("away"), RuntimeError("broken")])
def test_an_optimizer_that_is_given_a_job_while_its_table_is_dropped_gets_none(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    lake.create()
    lake.services.planner.run_now(LAKE, PLAIN, JobKind.REWRITE, {})

    def dropped_meanwhile(_tasks: object, _job: Job) -> object:
        drop(lake, PLAIN)
        raise error

    monkeypatch.setattr("server.service.jobs.tasks.Tasks.build_for_lease", dropped_meanwhile)
    body = {"optimizer_id": lake.optimizer(), "kinds": ["rewrite"], "wait_seconds": 0}
    assert lake.client.post("/api/v1/leases", json=body).status_code == 204
    assert active(lake) == []
