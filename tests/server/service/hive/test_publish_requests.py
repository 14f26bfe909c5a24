"""One wish for a publish is enough: what has to be merged first is merged, and whoever dies between loses no wish."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

import pytest

from catalog.errors import CatalogError, Conflict, Unavailable
from catalog.history.commit import Outcome
from catalog.hive.publish_request import PublishRequest, PublishStep
from catalog.jobs.job import Job, JobId, JobKind
from catalog.jobs.leases import Lease
from firn.protocol.leases import PROTOCOL
from server.service.hive.link_state import load_link
from server.service.hive.publish_planner import PublishPlanner
from server.service.hive.publish_requests import LASTS
from server.service.optimizers.optimizers import Registration
from server.service.planning.planner import create_requested_job, load_facts
from tests.factories import LAKE
from tests.server.faults import Killed
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles
from tests.server.service.hive.published_tables import leased, merged, note
from tests.server.service.hive.synced_tables import relation_of, upgraded

CHANGES = 3
"""The change sequence up to which changes wait."""


def changed(beside: BesideHive) -> HiveFiles:
    """A table of which Hive lacks one partition's merged rows, while others wait to be merged."""
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    pending(beside, table, CHANGES)
    return table


def pending(beside: BesideHive, table: HiveFiles, through: int, *, merged_to: int = 0) -> None:
    with beside.database.writing() as uow:
        keyed = uow.keyed.lock(relation_of(beside, table).id)
        commits = through - merged_to
        uow.keyed.put(replace(keyed, change_sequence=through, watermark=merged_to, pending_commits=commits))


def get_publish_request(beside: BesideHive, table: HiveFiles) -> PublishRequest:
    with beside.database.reading() as uow:
        request = load_link(uow, relation_of(beside, table).id).publish_request
    assert request is not None
    return request


def job_of(beside: BesideHive, job_id: JobId | None) -> Job:
    assert job_id is not None
    with beside.database.reading() as uow:
        return uow.jobs.get(job_id)


def begun(beside: BesideHive, kind: JobKind) -> Lease:
    about = Registration(group="default", host="here", pid=1, version=version("firn"), protocol=PROTOCOL)
    leased_job = beside.services.jobs.take(beside.services.optimizers.register(about).id, [kind])
    assert leased_job is not None
    return leased_job.lease


def merges(beside: BesideHive, table: HiveFiles, *, merged_to: int = CHANGES) -> None:
    """An optimizer's merge of what was pending."""
    lease = begun(beside, JobKind.MERGE)
    pending(beside, table, CHANGES, merged_to=merged_to)
    beside.services.jobs.report(lease, None, error=None, result={})


def asks(beside: BesideHive, table: HiveFiles) -> object:
    return beside.publish_requests.publish(LAKE, table.name)


def test_what_is_pending_is_merged_and_then_published(beside: BesideHive) -> None:
    table = changed(beside)
    outcome = beside.publish_requests.publish(LAKE, table.name)
    assert outcome.job is not None
    assert outcome.job.kind is JobKind.MERGE
    assert beside.publishes.activate().planned == 0  # the merge is under way
    request = get_publish_request(beside, table)
    assert (request.step, request.job) == (PublishStep.MERGING, outcome.job.id)
    merges(beside, table)
    assert beside.publishes.activate().planned == 1
    assert get_publish_request(beside, table).step is PublishStep.PUBLISHING
    job = leased(beside, table, x=(1, 7))  # asked for again meanwhile it is the same job
    assert job.lease.job_id == get_publish_request(beside, table).job
    done = beside.published.accept(job.lease, job.location, rows=job.rows)
    report = {"switched": done.switched, "skipped": done.skipped, "remaining": done.remaining}
    beside.services.jobs.report(job.lease, Outcome.COMMITTED, error=None, result=report)
    assert beside.publish_requests.is_open(relation_of(beside, table).id)
    beside.publishes.activate()
    assert not beside.publish_requests.is_open(relation_of(beside, table).id)
    ended = get_publish_request(beside, table)
    assert ended.step is PublishStep.DONE
    assert ended.message == "1 partition published; Hive is up to date"


def test_a_server_that_dies_before_the_publish_loses_no_request(beside: BesideHive) -> None:
    died = 0
    while True:
        table = changed(beside)
        beside.fuse.left = died + 1
        try:
            asks(beside, table)
            left, beside.fuse.left = beside.fuse.left, None  # the optimizer is another process
            merges(beside, table)
            beside.fuse.left = left
            beside.publishes.activate()
        except Killed:
            died += 1
            beside = beside.restarted()
            was_planned = begun_or_none(beside, JobKind.MERGE)
            if was_planned is not None:
                pending(beside, table, CHANGES, merged_to=CHANGES)
                beside.services.jobs.report(was_planned, None, error=None, result={})
                assert get_publish_request(beside, table).is_open
            if is_wished(beside, table):
                beside.publishes.activate()
                assert job_of(beside, get_publish_request(beside, table).job).kind is JobKind.PUBLISH
                beside.services.jobs.cancel(job_of(beside, get_publish_request(beside, table).job).id)
            else:
                assert was_planned is None  # nobody had been told anything
        else:
            beside.fuse.left = None
            break
    assert died >= 6  # around the wish's transaction, around the publish's, and around what is noted of it


def is_wished(beside: BesideHive, table: HiveFiles) -> bool:
    return beside.publish_requests.is_open(relation_of(beside, table).id)


def begun_or_none(beside: BesideHive, kind: JobKind) -> Lease | None:
    about = Registration(group="default", host="here", pid=1, version=version("firn"), protocol=PROTOCOL)
    leased_job = beside.services.jobs.take(beside.services.optimizers.register(about).id, [kind])
    return None if leased_job is None else leased_job.lease


def test_a_merge_that_fails_ends_the_wish_and_says_why(beside: BesideHive) -> None:
    table = changed(beside)
    asks(beside, table)
    beside.services.jobs.report(begun(beside, JobKind.MERGE), Outcome.REFUSED, error="disk full", result={})
    assert beside.publishes.activate().planned == 0
    assert (get_publish_request(beside, table).step, get_publish_request(beside, table).message) == (
        PublishStep.FAILED,
        "its merge job failed: disk full",
    )


def test_a_user_who_cancels_the_merge_cancels_the_publish(beside: BesideHive) -> None:
    table = changed(beside)
    asks(beside, table)
    beside.services.jobs.cancel(job_of(beside, get_publish_request(beside, table).job).id)
    assert beside.publishes.activate().planned == 0
    assert get_publish_request(beside, table).message == "its merge job was canceled: Hive's table is unchanged"


def test_a_merge_that_leaves_some_is_followed_by_another(beside: BesideHive) -> None:
    table = changed(beside)
    asks(beside, table)
    first = get_publish_request(beside, table).job
    merges(beside, table, merged_to=CHANGES - 1)
    assert beside.publishes.activate().planned == 1
    again = job_of(beside, get_publish_request(beside, table).job)
    assert (again.kind, again.id == first) == (JobKind.MERGE, False)
    merges(beside, table, merged_to=CHANGES - 1)  # and one that merges nothing is not asked for for ever
    assert beside.publishes.activate().planned == 0
    assert get_publish_request(beside, table).step is PublishStep.FAILED


def test_changes_that_come_later_do_not_hold_it_up(beside: BesideHive) -> None:
    table = changed(beside)
    asks(beside, table)
    merges(beside, table)
    pending(beside, table, CHANGES + 4, merged_to=CHANGES)
    beside.publishes.activate()
    assert job_of(beside, get_publish_request(beside, table).job).kind is JobKind.PUBLISH


def test_a_publish_waits_for_a_running_job(beside: BesideHive) -> None:
    table = changed(beside)
    relation = relation_of(beside, table)
    with beside.database.writing() as uow:
        other = create_requested_job(uow, relation, load_facts(uow, relation), JobKind.KEYS, {}, "requested")
    outcome = beside.publish_requests.publish(LAKE, table.name)
    assert (outcome.waits, outcome.job) == (True, None)
    assert beside.publishes.activate().planned == 0
    beside.services.jobs.cancel(other.id)
    assert beside.publishes.activate().planned == 1
    assert get_publish_request(beside, table).step is PublishStep.MERGING


def test_a_merge_that_has_begun_may_not_have_read_all(beside: BesideHive) -> None:
    table = changed(beside)
    asks(beside, table)
    assert beside.publish_requests.publish(LAKE, table.name).job is not None  # nobody has begun it: it will do
    begun(beside, JobKind.MERGE)
    assert beside.publish_requests.publish(LAKE, table.name).message == "a merge job is running"


def test_what_is_refused_is_not_remembered(beside: BesideHive) -> None:
    table = changed(beside)
    note(beside, table, publish_request=None)
    name = beside.table_name(table)
    until = datetime.now(UTC) + timedelta(hours=1)
    beside.services.blockers.block(LAKE, name, reason="we look at it", until=until)
    with pytest.raises(Conflict, match="we look at it"):
        asks(beside, table)
    assert not is_wished(beside, table)


@pytest.mark.parametrize(
    ("error", "step", "words"),
    [
        (Unavailable("the metastore is away"), PublishStep.WAITING, "the metastore is away"),
        (Conflict("it differs", hint="sync it"), PublishStep.FAILED, "it differs; sync it"),
    ],
)
def test_what_keeps_it_from_being_planned_is_told(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch, error: CatalogError, step: PublishStep, words: str
) -> None:
    table = changed(beside)
    asks(beside, table)
    merges(beside, table)

    def fails(*_args: object, **_named: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(PublishPlanner, "plan", fails)
        assert beside.publishes.activate().planned == 0
        assert (get_publish_request(beside, table).step, get_publish_request(beside, table).message) == (step, words)
        if step is PublishStep.WAITING:
            asked_long_ago(beside, table)
            beside.publishes.activate()
            assert get_publish_request(beside, table).message == f"not done within a day: {words}"
            return
    assert not is_wished(beside, table)


def asked_long_ago(beside: BesideHive, table: HiveFiles) -> None:
    now = get_publish_request(beside, table)
    note(beside, table, publish_request=replace(now, at=now.at - LASTS - timedelta(minutes=1)))


def test_a_downgrade_makes_its_own_wishes(beside: BesideHive) -> None:
    """Canceled, it leaves nothing to be published."""
    table = changed(beside)
    beside.publish_requests.publish(LAKE, table.name, remember=False)
    assert not is_wished(beside, table)
