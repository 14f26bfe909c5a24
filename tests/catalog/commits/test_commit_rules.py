"""The order in which a commit is judged: each point hides those after it, and is hidden by those before."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from catalog.commits.commit_rules import (
    OLDEST_LEASE,
    Apply,
    CommitContext,
    LeaseFacts,
    Replay,
    list_added_snapshots,
    read_writer_and_batch,
    validate_commits,
)
from catalog.errors import CommitRefused, DuplicateBatch, LeaseLost, RequirementFailed
from catalog.history.commit import TableCommit, digest_request
from catalog.iceberg.json import Json
from catalog.iceberg.table import apply_updates
from catalog.jobs.job import SEVERAL_COMMITS, CommitRecord, JobKind, JobStatus, LeaseToken
from catalog.jobs.leases import Lease
from catalog.keyed.spec import BATCH_ID, WRITER_ID
from catalog.keyed.store_commit import StoreCommit
from catalog.names import RelationId
from catalog.tables.relation import RelationKind
from tests.catalog.keyed.keyed_commits import BASE, CHANGE, SPEC, snapshot
from tests.factories import NOW, ORDERS, a_job, a_keyed_table, a_relation, an_event, lease_of

RELATION = a_relation()
SIGNED = {WRITER_ID: "w", BATCH_ID: "b"}
STALE: Json = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 999}
UPDATES = snapshot(BASE, 5, **SIGNED)
APPLIED = apply_updates(BASE, UPDATES, now_ms=2, previous_location=None)
LATER_HEAD = apply_updates(APPLIED, snapshot(APPLIED, 6), now_ms=3, previous_location=None)


def facts(metadata: Json = BASE, updates: list[Json] = UPDATES, *requirements: Json, **changes: Any) -> CommitContext:
    change = TableCommit(name=ORDERS, requirements=requirements, updates=updates)
    return replace(CommitContext(relation=RELATION, metadata=metadata, change=change, now=NOW), **changes)


def a_lease(status: JobStatus = JobStatus.COMMITTING, **changes: Any) -> LeaseFacts:
    job = a_job(status, **{"subject_id": RELATION.id, **changes})
    return LeaseFacts(lease=lease_of(replace(job, token=job.token or LeaseToken("t1"))), job=job)


LOST = replace(a_lease(), lease=Lease(a_lease().job.id, 7, LeaseToken("old")))
RECORD = CommitRecord(token=LeaseToken("t1"), snapshot_id=3, digest="x")
DUPLICATE = an_event(snapshot_id=4, writer_id="w", batch_id="b")
REFUSING = StoreCommit(
    role=RelationKind.BASE,
    keyed=a_keyed_table(spec=SPEC),
    base=BASE,
    change=CHANGE,
    updates=[*UPDATES, {"action": "set-location", "location": "file:/elsewhere"}],
    job_kind=None,
)


def test_everything_is_wrong_and_each_point_is_named_in_its_order() -> None:
    """2 replay, 3 lease, 4 writer and batch, 5 the table's own rules, 6 requirements (1 is the service's)."""
    wrong = facts(APPLIED, UPDATES, STALE, lease=LOST, batch=DUPLICATE, store=REFUSING)
    assert validate_commits([wrong]) == Replay()
    wrong = replace(wrong, metadata=BASE)
    with pytest.raises(LeaseLost):
        validate_commits([wrong])
    wrong = replace(wrong, lease=None)
    with pytest.raises(DuplicateBatch):
        validate_commits([wrong])
    wrong = replace(wrong, batch=None)
    with pytest.raises(CommitRefused, match="set-location"):
        validate_commits([wrong])
    wrong = replace(wrong, store=None)
    with pytest.raises(RequirementFailed):
        validate_commits([wrong])
    right = replace(wrong, change=replace(wrong.change, requirements=()))
    assert validate_commits([right]) == Apply([UPDATES])


# --- 2: a replay comes before everything -----------------------------------------------------------------------------


def test_a_commit_below_the_head_is_a_replay_and_no_rollback() -> None:
    assert validate_commits([facts(LATER_HEAD, UPDATES, STALE)]) == Replay()


def test_a_snapshot_of_the_same_id_with_other_files_is_no_replay() -> None:
    other = [{**UPDATES[0], "snapshot": {**UPDATES[0]["snapshot"], "manifest-list": "file:/other"}}, UPDATES[1]]
    with pytest.raises(RequirementFailed):
        validate_commits([facts(APPLIED, other, STALE)])


def test_a_snapshot_without_a_manifest_list_is_known_by_its_manifests() -> None:
    own = {key: value for key, value in UPDATES[0]["snapshot"].items() if key != "manifest-list"}
    sent = [{**UPDATES[0], "snapshot": {**own, "manifests": ["file:/m1.avro"]}}, UPDATES[1]]
    applied = apply_updates(BASE, sent, now_ms=2, previous_location=None)
    assert validate_commits([facts(applied, sent, STALE)]) == Replay()
    other = [{**UPDATES[0], "snapshot": {**own, "manifests": ["file:/m2.avro"]}}, UPDATES[1]]
    for metadata, updates in ((applied, other), (applied, UPDATES), (APPLIED, sent)):
        with pytest.raises(RequirementFailed):
            validate_commits([facts(metadata, updates, STALE)])


@pytest.mark.parametrize(("parent", "sequence", "replay"), [(None, 1, True), (None, 2, False), (3, 1, False)])
def test_an_expired_snapshot_is_known_by_its_event(parent: int | None, sequence: int, *, replay: bool) -> None:
    event = an_event(snapshot_id=5, parent_id=parent, sequence_number=sequence)
    wrong = facts(BASE, UPDATES, STALE, past={5: event})
    if replay:
        assert validate_commits([wrong]) == Replay()
    else:
        with pytest.raises(RequirementFailed):
            validate_commits([wrong])


def test_half_of_the_snapshots_is_no_replay() -> None:
    both = [*UPDATES, *snapshot(APPLIED, 8)]
    with pytest.raises(RequirementFailed):
        validate_commits([facts(APPLIED, both, STALE)])


def test_a_commit_without_a_snapshot_is_no_replay_of_anything() -> None:
    assert validate_commits([facts(APPLIED, [])]) == Apply([[]])


def test_one_table_that_shows_it_is_enough_for_a_transaction() -> None:
    assert validate_commits([facts(BASE, [], STALE), facts(APPLIED)]) == Replay()


def test_what_a_job_has_recorded_is_known_by_token_and_digest() -> None:
    expiry: list[Json] = [{"action": "remove-snapshots", "snapshot-ids": [1]}]
    change = TableCommit(name=ORDERS, updates=expiry)
    ended = a_lease(JobStatus.SUCCEEDED, token=None, attempt=1)
    record = CommitRecord(token=LeaseToken("t1"), snapshot_id=None, digest=digest_request(change))
    assert validate_commits([facts(BASE, expiry, lease=replace(ended, recorded=[record]))]) == Replay()
    others = [replace(record, token=LeaseToken("t2")), replace(record, digest="another request")]
    with pytest.raises(LeaseLost):
        validate_commits([facts(BASE, expiry, lease=replace(ended, recorded=others))])
    for number in (1, 2, 3):  # whichever of a job's commits it was
        recorded = [*others[: number - 1], replace(record, number=number), *others[number - 1 :]]
        assert validate_commits([facts(BASE, expiry, lease=replace(ended, recorded=recorded))]) == Replay()


# --- 3: the lease ----------------------------------------------------------------------------------------------------


def test_a_live_lease_of_a_committing_job_lets_its_commit_pass() -> None:
    assert validate_commits([facts(lease=a_lease())]) == Apply([UPDATES])


def test_a_keyed_tables_job_commits_to_its_stores() -> None:
    store = a_relation(kind=RelationKind.BASE, owner_id=RELATION.id)
    assert validate_commits([facts(lease=a_lease(), relation=store)]) == Apply([UPDATES])


@pytest.mark.parametrize(
    ("lease", "reason"),
    [
        (LOST, "has ended"),
        (a_lease(JobStatus.RUNNING), "has not announced its commit"),
        (a_lease(subject_id=RelationId(uuid4())), "is not valid for"),
        (a_lease(leased_at=NOW - OLDEST_LEASE - timedelta(seconds=1)), "orphan removal"),
        (replace(a_lease(), recorded=[RECORD]), "already"),
    ],
)
def test_a_lease_is_not_good_for_a_commit(lease: LeaseFacts, reason: str) -> None:
    with pytest.raises(LeaseLost, match=reason):
        validate_commits([facts(lease=lease)])


@pytest.mark.parametrize("kind", JobKind)
def test_only_kinds_that_may_commit_again(kind: JobKind) -> None:
    lease = a_lease(kind=kind)
    again = replace(lease, recorded=[RECORD])
    if kind is JobKind.CONVERT:  # what it may bring is narrower
        with pytest.raises(CommitRefused, match=r"a conversion must be|a conversion fills|rows in the Hive table"):
            validate_commits([facts(lease=lease)])
    else:
        assert validate_commits([facts(lease=lease)]) == Apply([UPDATES])
    if kind in SEVERAL_COMMITS:
        assert validate_commits([facts(lease=again)]) == Apply([UPDATES])
    else:
        with pytest.raises(LeaseLost, match="already"):
            validate_commits([facts(lease=again)])


# --- 4: writer and batch ---------------------------------------------------------------------------------------------


def test_a_duplicate_names_the_snapshot_that_brought_the_batch() -> None:
    with pytest.raises(DuplicateBatch) as caught:
        validate_commits([facts(batch=DUPLICATE)])
    assert caught.value.snapshot_id == 4


@pytest.mark.parametrize("summary", [{}, {WRITER_ID: "w"}, {BATCH_ID: "b"}, {WRITER_ID: "", BATCH_ID: "b"}])
def test_a_batch_needs_both_its_names(summary: dict[str, str]) -> None:
    updates = snapshot(BASE, 5, **summary)
    assert read_writer_and_batch(updates) is None
    assert [added["snapshot-id"] for added in list_added_snapshots(updates)] == [5]


# --- 5: rules of tables that are no stores ---------------------------------------------------------------------------


def removal(*more: Json) -> list[Json]:
    return [{"action": "remove-snapshots", "snapshot-ids": [5]}, *more]


def test_a_snapshot_that_a_ref_holds_is_not_removed_unless_the_ref_goes_too() -> None:
    with pytest.raises(CommitRefused, match="branch 'main' holds it"):
        validate_commits([facts(APPLIED, removal())])
    freed = removal({"action": "remove-snapshot-ref", "ref-name": "main"})
    assert validate_commits([facts(APPLIED, freed)]) == Apply([freed])
    assert validate_commits([facts(LATER_HEAD, removal())]) == Apply([removal()])


@pytest.mark.parametrize(
    "update",
    [
        {"action": "set-properties", "updates": {"gc.enabled": "true"}},
        {"action": "remove-properties", "removals": ["gc.enabled"]},
    ],
)
def test_a_table_linked_to_hive_keeps_engines_from_deleting_files(update: Json) -> None:
    assert validate_commits([facts(BASE, [update])]) == Apply([[update]])
    with pytest.raises(CommitRefused, match=r"gc\.enabled"):
        validate_commits([facts(BASE, [update], relation=a_relation(hive_name="db.orders"))])


def test_a_store_is_judged_by_its_own_rules_and_stamped() -> None:
    store = replace(REFUSING, updates=UPDATES)
    verdict = validate_commits([facts(store=store)])
    assert isinstance(verdict, Apply)
    assert verdict.updates[0][0]["snapshot"]["summary"]["firn.merged-through"] == "0"
