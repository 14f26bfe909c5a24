"""A table's counters follow the summaries of its snapshots, whatever engines write into them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from catalog.history.table_stats import advance_stats, describe_snapshots
from catalog.iceberg.json import Json
from catalog.iceberg.summaries import HIGHEST_COUNT, read_number
from catalog.names import RelationId
from catalog.policy.policy import merge_layers
from catalog.policy.sizes import small_file_bytes
from catalog.tables.relation import RelationKind, TableStats
from tests.factories import NOW, an_event

EMPTY = TableStats(relation_id=RelationId(uuid4()))
MIB = 2**20


def metadata(*summaries: Json, **changes: Any) -> Json:
    """A table with one snapshot per summary, a second apart."""
    snapshots = [
        {"snapshot-id": at, "sequence-number": at, "timestamp-ms": at * 1000, "summary": summary}
        for at, summary in enumerate(summaries, 1)
    ]
    head = snapshots[-1]["snapshot-id"] if snapshots else None
    return {"current-schema-id": 3, "snapshots": snapshots, "current-snapshot-id": head, "properties": {}} | changes


def added(files: int, size: int, total: int, operation: str = "append") -> Json:
    counts = {"added-data-files": files, "added-files-size": size, "total-data-files": total}
    return {"operation": operation} | {key: str(value) for key, value in counts.items()}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("0", 0),
        ("", 0),
        ("-3", 0),
        ("1.5", 0),
        ("many", 0),
        (None, 0),
        ([], 0),
        ("9" * 5_000, HIGHEST_COUNT),
    ],
)
def test_a_count_is_what_it_says_or_nothing_and_never_more_than_sums_can_hold(text: Any, value: int) -> None:
    assert read_number({"added-records": text}, "added-records") == value
    assert read_number({}, "added-records") == 0


def test_counters_are_those_of_the_heads_summary() -> None:
    summary = {"total-records": "7", "total-data-files": "2", "total-delete-files": "1", "total-files-size": "900"}
    stats = advance_stats(EMPTY, metadata({}, summary), an_event(committed_at=NOW, operation="overwrite"))
    assert (stats.snapshot_id, stats.sequence_number, stats.snapshots, stats.schema_id) == (2, 2, 2, 3)
    assert (stats.records, stats.data_files, stats.delete_files, stats.bytes) == (7, 2, 1, 900)
    assert (stats.last_commit_at, stats.last_operation) == (NOW, "overwrite")


def test_a_commit_that_makes_no_snapshot_leaves_what_the_head_counted() -> None:
    before = advance_stats(EMPTY, metadata({"total-records": "7"}), an_event())
    after = advance_stats(before, metadata({"total-records": "999"}), an_event(operation="properties"))
    assert (after.records, after.last_operation) == (7, "properties")


def test_an_empty_table_counts_nothing() -> None:
    stats = advance_stats(EMPTY, metadata(), an_event())
    assert (stats.snapshot_id, stats.records, stats.snapshots, stats.oldest_superseded_at) == (None, 0, 0, None)


def test_the_oldest_snapshot_is_superseded_when_the_second_comes() -> None:
    stats = advance_stats(EMPTY, metadata({}, {}, {}), an_event())
    assert stats.oldest_superseded_at == datetime.fromtimestamp(2, UTC)


def test_a_snapshot_that_a_tag_names_is_no_reason_to_look_for_older_ones() -> None:
    """It stays as long as its tag, and what came after it would never be looked at."""
    tagged = metadata({}, {}, {}, refs={"v1": {"type": "tag", "snapshot-id": 1}, "main": {"snapshot-id": 3}})
    assert advance_stats(EMPTY, tagged, an_event()).oldest_superseded_at == datetime.fromtimestamp(3, UTC)
    all_held = metadata({}, {}, refs={"v1": {"snapshot-id": 1}, "main": {"snapshot-id": 2}})
    assert advance_stats(EMPTY, all_held, an_event()).oldest_superseded_at is None


def test_deletes_are_counted_by_row_and_the_format_tells_what_they_are() -> None:
    summary = {"total-position-deletes": "5", "total-equality-deletes": "3"}
    stats = advance_stats(EMPTY, metadata(summary, **{"format-version": 3}), an_event())
    assert (stats.position_deletes, stats.equality_deletes, stats.format_version) == (5, 3, 3)


def test_manifests_are_known_where_the_engine_counts_them() -> None:
    counted = advance_stats(EMPTY, metadata({"manifests-created": "1", "manifests-kept": "7"}), an_event())
    assert counted.manifests == 8
    assert advance_stats(counted, metadata({}, {"manifests-created": "1"}), an_event()).manifests is None


def test_only_properties_of_firn_are_kept_for_planning() -> None:
    table = metadata({}, properties={"firn.merge.mode": "auto", "owner": "me"})
    assert advance_stats(EMPTY, table, an_event()).properties == {"firn.merge.mode": "auto"}


def after(summary: Json, **changes: Any) -> TableStats:
    """The counters of a table with one append when this snapshot has become main's head."""
    stats = advance_stats(EMPTY, metadata(added(3, 3 * MIB, 3)), an_event())
    two = metadata(added(3, 3 * MIB, 3), summary)
    two["snapshots"][1] |= {"parent-snapshot-id": 1, **changes}
    return advance_stats(stats, two, an_event())


@pytest.mark.parametrize(
    ("summary", "changes", "epoch"),
    [
        (added(1, MIB, 4), {}, 0),
        (added(1, MIB, 4), {"parent-snapshot-id": None}, 1),
        (added(1, MIB, 4) | {"deleted-data-files": "1"}, {}, 1),
        (added(0, 0, 3) | {"added-delete-files": "1"}, {}, 1),
        (added(1, MIB, 1, "replace"), {}, 1),
        (added(1, MIB, 1, "overwrite"), {}, 1),
        (added(0, 0, 1, "delete"), {}, 1),
        ({}, {}, 1),
    ],
)
def test_an_epoch_begins_with_whatever_is_no_plain_append(summary: Json, changes: Json, epoch: int) -> None:
    assert after(summary, **changes).epoch == epoch


def test_an_epoch_begins_when_the_head_is_set_back_or_gone() -> None:
    two = metadata(added(3, 3 * MIB, 3), added(1, MIB, 4))
    two["snapshots"][1]["parent-snapshot-id"] = 1
    ahead = advance_stats(advance_stats(EMPTY, metadata(added(3, 3 * MIB, 3)), an_event()), two, an_event())
    assert ahead.epoch == 0
    assert advance_stats(ahead, two | {"current-snapshot-id": 1}, an_event()).epoch == 1
    gone = advance_stats(ahead, two | {"current-snapshot-id": None}, an_event())
    assert (gone.epoch, gone.snapshot_id, gone.data_files) == (1, None, 0)
    assert advance_stats(gone, two | {"current-snapshot-id": None}, an_event()).epoch == 1


def test_what_is_small_is_what_the_packing_job_takes_for_small() -> None:
    def below(kind: RelationKind, **policy: str) -> int:
        return small_file_bytes(merge_layers([("table", {f"firn.{key}": text for key, text in policy.items()})]), kind)

    assert below(RelationKind.TABLE) == below(RelationKind.BASE) == 96 * MIB
    assert below(RelationKind.TABLE, **{"rewrite.small-file-size": "8 MiB"}) == 8 * MIB
    assert below(RelationKind.TABLE, **{"rewrite.target-file-size": "16 MiB"}) == 16 * MIB - 1
    assert below(RelationKind.CHANGE) == 48 * MIB
    assert below(RelationKind.CHANGE, **{"compact.target-file-size": "16 MiB"}) == 12 * MIB


def test_an_event_says_what_its_snapshot_says() -> None:
    summary = {
        "operation": "overwrite",
        "added-records": "5",
        "added-files-size": "50",
        "added-data-files": "1",
        "deleted-records": "2",
        "deleted-data-files": "3",
        "firn.writer-id": "w",
        "firn.batch-id": "b",
        "engine-name": "spark",
    }
    snapshot = {"snapshot-id": 9, "parent-snapshot-id": 8, "sequence-number": 4, "summary": summary}
    event = describe_snapshots(an_event(), [snapshot])
    assert (event.snapshot_id, event.parent_id, event.sequence_number, event.operation) == (9, 8, 4, "overwrite")
    assert (event.added_rows, event.added_bytes, event.added_files) == (5, 50, 1)
    assert (event.removed_rows, event.removed_files) == (2, 3)
    assert (event.writer_id, event.batch_id, event.engine, event.summary) == ("w", "b", "spark", summary)


def test_an_event_of_a_snapshot_without_a_summary_counts_nothing() -> None:
    event = describe_snapshots(an_event(engine="trino"), [{"snapshot-id": 9}])
    assert (event.operation, event.added_rows, event.engine, event.parent_id) == ("unknown", 0, "trino", None)


def test_an_event_of_several_snapshots_counts_what_all_of_them_did() -> None:
    deleted = {"operation": "delete", "deleted-records": "4000", "deleted-data-files": "4"}
    appended = {"operation": "append", "added-records": "10", "added-data-files": "1", "added-files-size": "7"}
    snapshots = [
        {"snapshot-id": 8, "parent-snapshot-id": 7, "sequence-number": 3, "summary": deleted},
        {"snapshot-id": 9, "parent-snapshot-id": 8, "sequence-number": 4, "summary": appended},
    ]
    event = describe_snapshots(an_event(), snapshots)
    assert (event.snapshot_id, event.parent_id, event.sequence_number, event.operation) == (9, 8, 4, "overwrite")
    assert (event.added_rows, event.added_files, event.added_bytes) == (10, 1, 7)
    assert (event.removed_rows, event.removed_files) == (4000, 4)
    assert describe_snapshots(an_event(), [snapshots[1], snapshots[1]]).operation == "append"
