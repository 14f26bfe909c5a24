"""Which job is due and why; what was tried in vain is not tried again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from catalog.jobs.job import JobKind, JobStatus
from catalog.keyed.spec import KeySpec
from catalog.maintenance import decide_next_job
from catalog.planning import Due, NotDue, TableFacts
from catalog.policy.policy import Policy, merge_layers
from catalog.tables.relation import TableStats
from tests.catalog.planning.tables import laid_out
from tests.factories import LATER, NOW, a_job, a_keyed_table


def facts(policy: dict[str, str] | None = None, **changes: Any) -> TableFacts:
    keyed = changes.pop("keyed", a_keyed_table())
    change = changes.pop("change", TableStats(relation_id=keyed.change_id))
    stats = changes.pop("stats", TableStats(relation_id=keyed.base_id))
    chosen: Policy = merge_layers([("table", policy or {})])
    return TableFacts(policy=chosen, stats=stats, keyed=keyed, change=change, **changes)


def pending(**changes: Any) -> TableFacts:
    counts = {"pending_rows": 1000, "pending_bytes": 10, "pending_commits": 1, "pending_since": NOW}
    policy = changes.pop("policy", None)
    return facts(policy, keyed=a_keyed_table(**counts | changes))


def test_nothing_pending_and_no_small_files_is_not_due() -> None:
    decision = decide_next_job(facts(), (), NOW)
    assert isinstance(decision, NotDue)
    assert "nothing pending" in decision.reason


def test_optimizing_switched_off_plans_nothing() -> None:
    decision = decide_next_job(pending(pending_rows=10**9, policy={"firn.optimize.enabled": "false"}), (), NOW)
    assert isinstance(decision, NotDue)
    assert "firn.optimize.enabled" in decision.reason


def test_each_limit_of_pending_changes_makes_a_merge_due() -> None:
    limits = {
        "firn.merge.max-pending-rows": "1000",
        "firn.merge.max-pending-bytes": "10",
        "firn.merge.max-pending-commits": "1",
        "firn.merge.max-pending-age": "0 s",
    }
    for key, limit in limits.items():
        decision = decide_next_job(pending(policy={key: limit}), (), NOW)
        assert isinstance(decision, Due), key
        assert decision.kind is JobKind.MERGE
        assert "limit" in decision.reason


def test_changes_below_every_limit_wait_until_their_age() -> None:
    decision = decide_next_job(pending(policy={"firn.merge.max-pending-age": "10 min"}), (), NOW)
    assert isinstance(decision, NotDue)
    assert decision.next_at == NOW + timedelta(minutes=10)
    assert "1,000 rows pending" in decision.reason


def test_a_table_with_an_active_job_gets_no_other() -> None:
    active = a_job(JobStatus.RUNNING)
    decision = decide_next_job(pending(pending_rows=10**9), [active], NOW)
    assert isinstance(decision, NotDue)
    assert "running already" in decision.reason


def test_merged_rows_left_in_the_change_store_are_cleaned() -> None:
    keyed = a_keyed_table(watermark=4)
    change_stats = TableStats(relation_id=keyed.change_id, records=7, snapshot_id=1)
    decision = decide_next_job(facts(keyed=keyed, change=change_stats), (), NOW)
    assert isinstance(decision, Due)
    assert decision.kind is JobKind.CLEAN


def test_pending_rows_are_never_a_reason_to_clean() -> None:
    keyed = a_keyed_table(watermark=4, pending_rows=7, pending_commits=1, pending_since=NOW)
    decision = decide_next_job(facts(keyed=keyed, change=TableStats(relation_id=keyed.change_id, records=7)), (), NOW)
    assert isinstance(decision, NotDue)


def test_with_a_sequence_field_merged_deletes_stay_until_all_of_them_are_old() -> None:
    """A merge takes what has become old; this is for tables that are not merged any more."""
    keyed = a_keyed_table(spec=KeySpec(primary_key=("id",), sequence_field="at"), watermark=4)
    seen = facts(keyed=keyed, change=TableStats(relation_id=keyed.change_id, records=7, snapshot_id=1))
    merge = a_job(JobStatus.SUCCEEDED, kind=JobKind.MERGE, created_at=NOW, leased_at=NOW, ended_at=NOW)
    old_at = NOW + timedelta(days=7)
    waits = decide_next_job(seen, [merge], old_at)
    assert isinstance(waits, NotDue)
    assert (waits.kind, waits.next_at) == (JobKind.CLEAN, old_at)
    due = decide_next_job(seen, [merge], old_at + timedelta(seconds=1))
    assert isinstance(due, Due)
    assert (due.kind, due.state) == (JobKind.CLEAN, "merged 4")


def test_small_files_make_a_rewrite_due() -> None:
    keyed = a_keyed_table()
    stats = TableStats(relation_id=keyed.base_id, data_files=20, snapshot_id=1)
    decision = decide_next_job(laid_out(facts({"firn.rewrite.min-files": "20"}, keyed=keyed, stats=stats), 20), (), NOW)
    assert isinstance(decision, Due)
    assert decision.kind is JobKind.REWRITE


def test_a_table_with_a_held_run_waits_with_rewrites_and_nothing_else() -> None:
    keyed = a_keyed_table()
    stats = TableStats(relation_id=keyed.base_id, data_files=20, snapshot_id=1)
    rewritten = laid_out(facts({"firn.rewrite.min-files": "20"}, keyed=keyed, stats=stats, has_held_run=True), 20)
    waits = decide_next_job(rewritten, (), NOW)
    assert isinstance(waits, NotDue)
    assert "rewrite is due" in waits.reason
    assert "a run of a pipeline waits for approval" in waits.reason
    due = decide_next_job(replace(pending(pending_rows=10**9), has_held_run=True), (), NOW)
    assert isinstance(due, Due)
    assert due.kind is JobKind.MERGE


def test_a_plain_table_linked_to_hive_keeps_the_files_that_hive_lists() -> None:
    stats = TableStats(relation_id=a_keyed_table().base_id, data_files=10**6, snapshot_id=1)
    linked = TableFacts(policy=merge_layers([]), stats=stats, hive_linked=True)
    assert isinstance(decide_next_job(laid_out(linked, 10**6), (), NOW), NotDue)


def test_old_snapshots_are_expired_but_not_the_change_history_of_a_linked_table() -> None:
    keyed = a_keyed_table()
    old = TableStats(relation_id=keyed.change_id, snapshots=50, oldest_superseded_at=NOW - timedelta(days=9))
    decision = decide_next_job(facts(keyed=keyed, change=old), (), NOW)
    assert isinstance(decision, Due)
    assert decision.kind is JobKind.EXPIRE
    assert isinstance(decide_next_job(facts(keyed=keyed, change=old, hive_linked=True), (), NOW), NotDue)


def test_what_found_nothing_to_do_is_not_planned_again_for_the_same_state() -> None:
    wanted = pending(pending_rows=10**9)
    due = decide_next_job(wanted, (), NOW)
    assert isinstance(due, Due)
    done = a_job(JobStatus.SUCCEEDED, kind=JobKind.MERGE, params={"state": due.state}, ended_at=NOW)
    assert isinstance(decide_next_job(wanted, [done], LATER), NotDue)
    moved_on = a_job(JobStatus.SUCCEEDED, kind=JobKind.MERGE, params={"state": "another"}, ended_at=NOW)
    assert isinstance(decide_next_job(wanted, [moved_on], LATER), Due)


def test_failures_in_a_row_back_off_longer_each_time_and_say_why() -> None:
    wanted = pending(pending_rows=10**9)
    waits = []
    for count in (1, 2, 3):
        failed = [a_job(JobStatus.FAILED, kind=JobKind.MERGE, error="no disk", ended_at=NOW) for _ in range(count)]
        decision = decide_next_job(wanted, failed, NOW)
        assert isinstance(decision, NotDue)
        assert "no disk" in decision.reason
        assert decision.next_at is not None
        waits.append(decision.next_at - NOW)
        assert isinstance(decide_next_job(wanted, failed, decision.next_at), Due)
    assert waits == sorted(set(waits))


def test_a_failed_merge_does_not_hold_up_the_other_kinds() -> None:
    keyed = a_keyed_table(pending_rows=10**9, pending_commits=1, pending_since=NOW)
    stats = TableStats(relation_id=keyed.base_id, data_files=10**6, snapshot_id=1)
    failed = a_job(JobStatus.FAILED, kind=JobKind.MERGE, ended_at=NOW)
    decision = decide_next_job(laid_out(facts(keyed=keyed, stats=stats), 10**6), [failed], NOW)
    assert isinstance(decision, Due)
    assert decision.kind is JobKind.REWRITE
