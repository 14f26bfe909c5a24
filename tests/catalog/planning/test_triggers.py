"""What each kind of job needs to be due, and when it is not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from catalog.files.file_layout import FileLayout, Packing
from catalog.jobs.job import JobKind, JobStatus, LeaseToken
from catalog.keyed.spec import KeySpec
from catalog.maintenance import decide_next_job
from catalog.maintenance.next_job import MAX_TURNS
from catalog.maintenance.prediction import predict_job
from catalog.planning import Due, TableFacts
from catalog.policy.policy import merge_layers
from catalog.tables.relation import TableStats
from tests.catalog.planning.due import AT_THREE, HOUR, THREE, due, not_due
from tests.catalog.planning.tables import DAY, KEYED, ended, laid_out, plain, with_changes
from tests.factories import NOW, a_keyed_table

QUIET = {"firn.orphans.schedule": ""}


def keyed(policy: dict[str, str] | None = None, change: Any = None, **changes: Any) -> TableFacts:
    counts = {"pending_rows": 10, "pending_bytes": 10, "pending_commits": 1, "pending_since": NOW}
    return TableFacts(
        policy=merge_layers([("table", QUIET | (policy or {}))]),
        stats=TableStats(relation_id=KEYED.base_id, snapshot_id=3),
        keyed=a_keyed_table(relation_id=KEYED.relation_id, **counts | changes),
        change=TableStats(relation_id=KEYED.change_id, snapshot_id=4, **(change or {})),
        created_at=NOW - 40 * DAY,
    )


# --- merge -----------------------------------------------------------------------------------------------------------


def test_a_trigger_takes_the_place_of_the_four_limits() -> None:
    trigger = {"firn.merge.trigger": "commits >= 3 and age >= 1 h"}
    waits = not_due(keyed(trigger, pending_rows=10**9, pending_commits=3))
    assert waits.next_at == NOW + HOUR
    assert waits.kind is JobKind.MERGE
    merge = due(keyed(trigger, pending_commits=3), now=NOW + HOUR)
    assert merge.reason == "3 commits pending (limit 3) and oldest change pending for 60 min (limit 60 min)"


def test_elapsed_counts_from_the_last_merge_or_from_when_the_table_was_made() -> None:
    facts = keyed({"firn.merge.trigger": "elapsed >= 2 h"})
    assert due(facts).reason == "last merged 40 d ago (limit 2 h)"
    merged = ended(JobKind.MERGE, created_at=NOW - HOUR)
    assert not_due(facts, [merged]).next_at == NOW + HOUR


def test_a_merge_by_schedule_takes_whatever_is_pending() -> None:
    facts = keyed({"firn.merge.schedule": "0 3 * * *"}, pending_since=NOW)
    assert due(facts).reason == "it was scheduled for 2026-11-21 03:00 UTC"
    merged = ended(JobKind.MERGE, created_at=THREE + HOUR)
    assert not_due(facts, [merged]).next_at == NOW + timedelta(minutes=10)  # by age


def test_what_a_rollback_brings_back_is_merged_again() -> None:
    """Watermark and change sequence are then what they were before the first merge."""
    trigger = {"firn.merge.trigger": "rows >= 1"}
    first = due(keyed(trigger, version=4, watermark=2, change_sequence=5))
    done = ended(JobKind.MERGE, params={"state": first.state})
    due(keyed(trigger, version=6, watermark=2, change_sequence=5), [done])


# --- files -----------------------------------------------------------------------------------------------------------


def test_vectors_that_take_many_rows_away_make_a_rewrite_due() -> None:
    vectors: dict[str, Any] = {"format_version": 3, "records": 1000, "data_files": 40, "delete_files": 40}
    rewrite = due(plain(position_deletes=250, **vectors))
    assert (rewrite.kind, rewrite.reason) == (JobKind.REWRITE, "25% of rows are deleted (limit 20%)")
    assert rewrite.params == {"because": "deletes"}
    not_due(plain(position_deletes=150, **vectors))


def test_many_position_delete_files_are_packed_where_there_are_no_vectors() -> None:
    files: dict[str, Any] = {"records": 10**6, "data_files": 40, "delete_files": 10, "position_deletes": 10}
    assert due(plain(format_version=2, **files)).kind is JobKind.REWRITE_DELETES
    not_due(plain(format_version=3, **files))
    not_due(plain(format_version=2, **files | {"delete_files": 9}))


def test_equality_deletes_are_applied_by_a_rewrite_for_nothing_packs_them() -> None:
    files: dict[str, Any] = {"records": 10**6, "data_files": 40, "delete_files": 10, "equality_deletes": 10}
    for version in (2, 3):
        rewrite = due(plain(format_version=version, **files))
        assert (rewrite.kind, rewrite.params) == (JobKind.REWRITE, {"because": "deletes", "apply_deletes": True})


def test_a_rewrite_by_schedule_takes_what_is_small_however_little() -> None:
    policy = {"firn.rewrite.schedule": "0 3 * * *"}
    rewrite = due(plain(policy, small_files=2, created_at=NOW - DAY))
    assert (rewrite.kind, rewrite.params) == (JobKind.REWRITE, {"min_files": "2"})
    assert not_due(plain(policy, small_files=1, created_at=NOW - DAY)).kind is JobKind.REMOVE_ORPHANS


def test_365_partitions_of_one_file_promise_nothing_and_get_no_rewrite() -> None:
    """It promised 365 → 1 files, ran and found nothing to do."""
    table = laid_out(plain(data_files=365, bytes=365 * 10**6), *[1] * 365)
    waits = not_due(table)
    assert "of 365 small files 0 can be packed (a rewrite is due at 20)" in waits.reason
    gain = predict_job(JobKind.REWRITE, table, ())
    assert (gain.files_before, gain.files_after, gain.work) == (365, 365, 0)


def test_18_small_files_in_6_partitions_are_packed() -> None:
    table = laid_out(plain(data_files=18, bytes=18 * 10**6), *[3] * 6)
    rewrite = due(table)
    assert (rewrite.kind, rewrite.params) == (JobKind.REWRITE, {"min_files": "2"})
    assert rewrite.reason == "12 of 18 files would go: small ones of 6 partitions"
    assert rewrite.predicted is not None
    assert (rewrite.predicted.files_before, rewrite.predicted.files_after) == (18, 6)
    large = laid_out(plain(data_files=1018, bytes=1018 * 10**6), *[3] * 6)
    few = "of 18 small files 18 can be packed, 0 of them with 5 or more to a partition (a rewrite is due at 20)"
    assert few in not_due(large).reason


def test_a_rewrite_waits_until_files_that_have_gone_are_not_counted_any_more() -> None:
    """A publish, a rewrite of an engine or a rollback leaves fewer small files than were counted before it."""
    table = plain(small_files=30, data_files=30, bytes=10**6)
    assert due(table).kind is JobKind.REWRITE
    appended = replace(table, stats=replace(table.stats, snapshot_id=8))
    assert due(appended).kind is JobKind.REWRITE
    assert appended.to_count == [table.stats.relation_id]
    replaced = replace(table, stats=replace(table.stats, snapshot_id=8, epoch=1))
    assert "its files are being counted" in not_due(replaced).reason
    for other in ({"firn.rewrite.small-file-size": "1 KiB"}, {"firn.rewrite.target-file-size": "1 MiB"}):
        assert replace(table, policy=merge_layers([("table", other)])).to_count == [table.stats.relation_id]


def test_deletes_that_apply_to_no_file_make_no_rewrite_due() -> None:
    dangling: dict[str, Any] = {"records": 100, "position_deletes": 50, "delete_files": 2, "data_files": 4}
    table = plain(format_version=3, **dangling)
    assert due(replace(table, layout=_selected(table, 1))).kind is JobKind.REWRITE
    not_due(replace(table, layout=_selected(table, 0)))


def _selected(table: TableFacts, files: int) -> FileLayout:
    assert table.layout is not None
    return replace(table.layout, planned=Packing(files=files, groups=files, files_after=files))


def test_manifests_beyond_the_limit_are_written_anew_once_in_as_many_commits() -> None:
    many = due(plain(manifests=101, sequence_number=250))
    assert (many.kind, many.reason) == (JobKind.REWRITE_MANIFESTS, "101 manifests (limit 100)")
    done = ended(JobKind.REWRITE_MANIFESTS, params={"state": many.state})
    not_due(plain(manifests=101, sequence_number=299, snapshot_id=8), [done])
    due(plain(manifests=101, sequence_number=300, snapshot_id=9), [done])


def test_manifests_of_a_format_that_counts_no_commits_are_not_looked_at_after_each() -> None:
    """Format v1 has no sequence numbers; a registered table may have more full manifests than the limit."""
    first = due(plain(manifests=150, format_version=1))
    nothing = ended(JobKind.REWRITE_MANIFESTS, params={"state": first.state})
    not_due(plain(manifests=151, format_version=1, snapshot_id=8), [nothing])
    due(plain(manifests=200, format_version=1, snapshot_id=9), [nothing])
    packed = replace(nothing, committed_by=LeaseToken("t"))
    due(plain(manifests=151, format_version=1, snapshot_id=10), [packed])


@pytest.mark.parametrize("manifests", [None, 100])
def test_manifests_that_are_few_or_not_counted_are_left_alone(manifests: int | None) -> None:
    not_due(plain(manifests=manifests))


def test_a_linked_plain_table_keeps_its_files_whatever_their_deletes() -> None:
    deletes: dict[str, Any] = {"records": 10, "position_deletes": 9, "equality_deletes": 5, "delete_files": 9}
    not_due(plain(hive_linked=True, small_files=100, **deletes))


def test_changes_are_packed_when_they_stay() -> None:
    waiting_long = {"pending_since": NOW - HOUR, "pending_rows": 10}
    policy = {"firn.merge.trigger": "rows >= 1000000"}
    compact = due(with_changes(keyed(policy, {"data_files": 10, "records": 10}, **waiting_long), 10))
    assert compact.kind is JobKind.COMPACT
    young = not_due(with_changes(keyed(policy, {"data_files": 10, "records": 10}, pending_since=NOW), 10))
    assert young.next_at == NOW + HOUR


def test_changes_that_are_kept_for_late_ones_are_packed_at_once() -> None:
    spec = KeySpec(primary_key=("id",), sequence_field="at")
    kept = with_changes(keyed(None, {"data_files": 10, "records": 1000}, spec=spec, watermark=3), 10)
    assert due(kept, [ended(JobKind.MERGE)]).kind is JobKind.COMPACT


# --- keeping ---------------------------------------------------------------------------------------------------------


def old(**changes: Any) -> dict[str, Any]:
    return {"snapshots": 50, "oldest_superseded_at": NOW - 9 * DAY, **changes}


def test_snapshots_of_age_wait_an_hour_for_others() -> None:
    """With a commit a minute a table would expire every minute."""
    ripe = NOW + 5 * DAY + HOUR
    waits = not_due(plain(QUIET, **old(oldest_superseded_at=NOW)), now=ripe)
    assert waits.next_at == ripe + timedelta(seconds=1)
    assert due(plain(QUIET, **old(oldest_superseded_at=NOW)), now=waits.next_at).kind is JobKind.EXPIRE


def test_too_many_snapshots_are_expired_at_any_age_but_at_most_once_an_hour() -> None:
    limit = {"firn.expire.max-snapshots": "100"}
    many = old(snapshots=151, oldest_superseded_at=NOW - timedelta(hours=3, seconds=1))
    assert "151 snapshots (limit 100)" in due(plain(QUIET | limit, **many)).reason
    not_due(plain(QUIET | limit, **many | {"snapshots": 150}))
    not_due(plain(QUIET | limit, **many | {"oldest_superseded_at": NOW - 3 * HOUR}))
    not_due(plain(QUIET, **many))


def test_a_table_with_a_log_has_a_limit_of_snapshots_by_default() -> None:
    """Drains commit for ever, and each commit writes all snapshots again."""
    many = {"snapshots": 751, "oldest_superseded_at": NOW - DAY}
    plenty = keyed({"firn.merge.trigger": "rows >= 1000"}, many)
    not_due(plenty)
    with_log = replace(plenty, stats=replace(plenty.stats, properties={"firn.log.topic": "orders"}))
    assert "limit 500" in due(with_log).reason
    more = merge_layers(
        [("table", QUIET | {"firn.merge.trigger": "rows >= 1000", "firn.expire.max-snapshots": "5000"})]
    )
    not_due(replace(with_log, policy=more))


def test_expiry_with_a_schedule_waits_for_it() -> None:
    policy = QUIET | {"firn.expire.schedule": "0 3 * * *"}
    waits = not_due(plain(policy, **old()))
    assert waits.next_at == THREE + DAY
    assert "waits for its schedule" in waits.reason
    assert due(plain(policy, **old()), now=THREE + DAY).kind is JobKind.EXPIRE


def test_snapshots_that_could_not_go_are_tried_again_when_many_more_have_come() -> None:
    first = due(plain(**old()))
    done = ended(JobKind.EXPIRE, params={"state": first.state})
    not_due(plain(**old(snapshots=99)), [done])
    due(plain(**old(snapshots=100)), [done])


def of_both(base: dict[str, Any], change: dict[str, Any]) -> TableFacts:
    facts = keyed({"firn.merge.trigger": "rows >= 1000"}, change)
    return replace(facts, stats=TableStats(relation_id=KEYED.base_id, snapshot_id=3, **base))


def test_snapshots_of_base_that_cannot_go_hide_nothing_of_the_change_store() -> None:
    stuck = due(of_both(old(), {}))
    tried = ended(JobKind.EXPIRE, params={"state": stuck.state})
    assert "found nothing to do" in not_due(of_both(old(), {}), [tried]).reason
    both = due(of_both(old(), old()), [tried])
    assert both.kind is JobKind.EXPIRE
    again = ended(JobKind.EXPIRE, params={"state": both.state})
    not_due(of_both(old(), old()), [again, tried])
    not_due(of_both(old(), {}), [again, tried])
    due(of_both(old(), old(oldest_superseded_at=NOW - 8 * DAY)), [again, tried])
    soon = old(oldest_superseded_at=NOW - 5 * DAY)
    assert not_due(of_both(old(), soon), [tried]).next_at == NOW + HOUR + timedelta(seconds=1)


def test_a_new_table_is_not_due_for_moments_before_it_was_made() -> None:
    for created, is_due in ((THREE - timedelta(seconds=1), True), (THREE, False), (NOW, False)):
        facts = plain(AT_THREE, created_at=created, last_commit_at=NOW)
        assert isinstance(decide_next_job(facts, (), NOW), Due) == is_due
    assert not_due(plain(AT_THREE, created_at=NOW, last_commit_at=NOW)).next_at == THREE + DAY


def test_a_schedule_is_of_its_own_time_zone() -> None:
    policy = AT_THREE | {"firn.optimize.time-zone": "America/New_York"}
    assert not_due(plain(policy, last_commit_at=NOW)).next_at == NOW.replace(hour=8, minute=0) + DAY


def test_a_scheduled_job_that_has_failed_is_still_due() -> None:
    facts = plain(AT_THREE, created_at=NOW - DAY, last_commit_at=NOW)
    failed = ended(JobKind.REMOVE_ORPHANS, JobStatus.FAILED, error="no disk")
    assert "failed once: no disk" in not_due(facts, [failed]).reason
    assert due(facts, [failed], NOW + HOUR).kind is JobKind.REMOVE_ORPHANS


def look(days_ago: int, **changes: Any) -> Any:
    """One that took an hour."""
    began = NOW - days_ago * DAY
    return ended(JobKind.REMOVE_ORPHANS, **{"created_at": began, "ended_at": began + HOUR, **changes})


def test_orphans_are_not_looked_for_where_nobody_writes() -> None:
    """Once when what the last writers left is old enough to be set aside, once when it may be deleted."""
    facts = plain(AT_THREE, created_at=NOW - 60 * DAY, last_commit_at=NOW - 30 * DAY)
    looks = [look(1), look(9)]
    assert not_due(facts, looks).kind is None
    due(facts, looks[1:])
    due(plain(AT_THREE, created_at=NOW - 60 * DAY, last_commit_at=NOW - 5 * DAY), looks)


def test_what_lies_aside_of_an_idle_table_is_deleted_in_the_end() -> None:
    """A week after the first look began its files, set aside during it, have not been aside for a week."""
    facts = plain(AT_THREE, created_at=NOW - 60 * DAY, last_commit_at=NOW - 30 * DAY)
    due(facts, [look(1), look(8)])
    assert not_due(facts, [look(1), look(9)]).kind is None
    due(facts, [look(1, result={"refused": "shared"}), look(9)])


def test_orphans_are_not_looked_for_where_none_could_be_taken() -> None:
    reason = "its location s3://elsewhere is not inside the catalog's warehouse"
    kept = plain(AT_THREE, created_at=NOW - DAY, last_commit_at=NOW, keeps_orphans=reason)
    decision = not_due(kept)
    assert (decision.kind, decision.next_at) == (None, None)
    assert decision.reason.endswith(f"; no remove-orphans: {reason}")
    assert "remove-orphans" not in not_due(replace(kept, policy=merge_layers([("table", QUIET)]))).reason


def test_orphans_of_a_linked_table_are_hives() -> None:
    assert not_due(plain(AT_THREE, created_at=NOW - DAY, last_commit_at=NOW, hive_linked=True)).kind is None


def test_rows_grow_old_by_schedule_where_policy_says_by_what() -> None:
    ttl = QUIET | {"firn.ttl.field": "at", "firn.ttl.max-age": "30 d"}
    at_four = {"firn.ttl.schedule": "0 4 * * *"}
    known: dict[str, Any] = {"created_at": NOW - DAY, "records": 10}
    reason = "rows whose at is older than 30 d go: it was scheduled for 2026-11-21 04:00 UTC"
    assert due(plain(ttl | at_four, **known)).reason == reason
    for lacking in ttl.keys() - QUIET.keys():
        not_due(plain({key: text for key, text in ttl.items() if key != lacking}, **known))
    not_due(plain(ttl, **known | {"records": 0}))


@pytest.mark.parametrize("of", [plain, lambda policy, **more: replace(keyed(policy), **more)])
def test_rows_of_a_linked_table_do_not_grow_old_and_it_says_so(of: Any) -> None:
    """The job is refused for plain and for keyed ones: planned, it would fail every hour."""
    ttl = QUIET | {"firn.ttl.field": "at", "firn.ttl.max-age": "30 d", "firn.merge.trigger": "rows >= 1000"}
    stats = TableStats(relation_id=KEYED.base_id, snapshot_id=3, records=10)
    linked = replace(of(ttl, created_at=NOW - DAY), stats=stats)
    assert due(linked).kind is JobKind.TTL
    reason = not_due(replace(linked, hive_linked=True)).reason
    assert reason.endswith("no ttl: the table is linked to Hive, which would bring the rows back")


def test_distinct_values_are_counted_once_for_a_snapshot_and_its_columns() -> None:
    policy = QUIET | {"firn.statistics.columns": "id, day", "firn.statistics.schedule": "0 * * * *"}
    count = due(plain(policy, created_at=NOW - DAY))
    assert count.kind is JobKind.STATISTICS
    done = ended(JobKind.STATISTICS, params={"state": count.state}, created_at=NOW - 2 * HOUR)
    assert not_due(plain(policy, created_at=NOW - DAY), [done]).kind is None
    due(plain(policy, created_at=NOW - DAY, snapshot_id=8), [done])
    due(plain(policy | {"firn.statistics.columns": "id"}, created_at=NOW - DAY), [done])


def test_tags_are_made_by_schedule_of_a_table_that_has_a_head() -> None:
    policy = QUIET | {"firn.tags.schedule": "0 0 * * *"}
    assert due(plain(policy, created_at=NOW - DAY)).kind is JobKind.TAGS
    not_due(plain(policy, created_at=NOW - DAY, snapshot_id=None))


# --- turns -----------------------------------------------------------------------------------------------------------


def test_a_kind_that_is_always_due_does_not_starve_the_others() -> None:
    """Commits that come faster than merges end would keep every other job from the table for ever."""
    facts = keyed({"firn.merge.trigger": "rows >= 1"}, {"snapshots": 50, "oldest_superseded_at": NOW - 9 * DAY})
    kinds: list[JobKind] = []
    past: list[Any] = []
    for turn in range(2 * (MAX_TURNS + 1)):
        decision = due(facts, past)
        kinds.append(decision.kind)
        past = [ended(decision.kind, params={"state": f"before {turn}"}), *past]
    assert kinds == 2 * [*[JobKind.MERGE] * MAX_TURNS, JobKind.EXPIRE]


def test_turns_go_round_all_that_is_due_and_syncs_take_none() -> None:
    counts = {"snapshots": 50, "oldest_superseded_at": NOW - 9 * DAY}
    policy = {"firn.merge.trigger": "rows >= 1", "firn.tags.schedule": "0 0 * * *"}
    facts = keyed(policy, counts)
    kinds: list[JobKind] = []
    past: list[Any] = []
    for turn in range(3 * (MAX_TURNS + 1)):
        now = NOW + timedelta(days=turn)  # so that a tag is due each time
        decision = due(facts, past, now)
        kinds.append(decision.kind)
        params = {"state": f"before {turn}"}
        sync = ended(JobKind.SYNC, created_at=now)
        past = [sync, ended(decision.kind, params=params, created_at=now), *past]
    others = [kind for kind in kinds if kind is not JobKind.MERGE]
    assert others == [JobKind.EXPIRE, JobKind.TAGS, JobKind.EXPIRE]
