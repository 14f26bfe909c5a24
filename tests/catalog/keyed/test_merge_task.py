"""What an optimizer is told: facts that fit each other, and modes by size."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from catalog.iceberg.json import Json
from catalog.keyed.adoption import MOST_PENDING_BYTES, build_rewrite_rule, find_obstacle
from catalog.keyed.file_tasks import RewritePolicy, build_deletes_task, build_manifests_task, build_rewrite_task
from catalog.keyed.merge_task import MIB, MergePolicy, build_merge_task, merge_mode, read_partition
from catalog.keyed.spec import KeyedTable, KeySpec
from catalog.names import RelationId, TableName
from firn.protocol.tasks.merge import MergeMode, MergeTask

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ORDERS = TableName(("db",), "orders")


def ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def a_store(*, snapshots: list[Json] | None = None, spec: list[Json] | None = None, **more: object) -> Json:
    fields = [
        {"id": 1, "name": "id", "type": "int", "required": True},
        {"id": 2, "name": "day", "type": "date", "required": False},
        {"id": 3, "name": "at", "type": "timestamptz", "required": False},
    ]
    snapshots = snapshots or []
    refs = {"main": {"type": "branch", "snapshot-id": snapshots[-1]["snapshot-id"]}} if snapshots else {}
    return {
        "table-uuid": "u",
        "location": "file:/warehouse/db/orders/base",
        "format-version": 3,
        "schemas": [{"schema-id": 4, "fields": fields}],
        "current-schema-id": 4,
        "partition-specs": [{"spec-id": 0, "fields": spec or []}],
        "default-spec-id": 0,
        "current-snapshot-id": snapshots[-1]["snapshot-id"] if snapshots else -1,
        "snapshots": snapshots,
        "refs": refs,
        "snapshot-log": [{k: s[k] for k in ("snapshot-id", "timestamp-ms")} for s in snapshots],
        **more,
    }


def a_snapshot(id: int, sequence: int, *, at: datetime = NOW, rows: int = 0, size: int = 0) -> Json:
    summary = {"total-records": str(rows), "total-files-size": str(size)}
    return {"snapshot-id": id, "sequence-number": sequence, "timestamp-ms": ms(at), "summary": summary}


def a_keyed(*, sequence_field: str | None = None, watermark: int = 3, pending: int = 1) -> KeyedTable:
    return KeyedTable(
        relation_id=RelationId(UUID(int=1)),
        spec=KeySpec(primary_key=("id",), sequence_field=sequence_field),
        base_id=RelationId(UUID(int=2)),
        change_id=RelationId(UUID(int=3)),
        watermark=watermark,
        pending_rows=10 * pending,
        pending_commits=pending,
    )


def test_a_merge_reads_the_pinned_heads_and_goes_through_the_change_heads_sequence_number() -> None:
    base, change = a_store(snapshots=[a_snapshot(70, 2)]), a_store(snapshots=[a_snapshot(90, 5)])
    task = build_merge_task(a_keyed(), ORDERS, base, change, policy=MergePolicy())
    assert (task.watermark, task.through) == (3, 5)
    assert (task.base.snapshot_id, task.change.snapshot_id) == (70, 90)
    assert "`firn_job`.`db`.`orders`.`base_at_70_4`" in task.sql["merged"]
    assert (
        "`firn_job`.`db`.`orders`.`change_at_90_4` AS c WHERE c._last_updated_sequence_number > 3" in task.sql["merged"]
    )
    assert task.clean.through == 5
    assert MergeTask.model_validate_json(task.model_dump_json()) == task


def test_with_nothing_pending_the_watermark_stays_though_cleans_have_moved_the_head() -> None:
    change = a_store(snapshots=[a_snapshot(90, 9)])
    task = build_merge_task(a_keyed(pending=0), ORDERS, a_store(), change, policy=MergePolicy())
    assert (task.pending, task.through, task.clean.through, task.sql) == (False, 3, 3, {})


def test_a_first_merge_has_no_base_snapshot() -> None:
    change = a_store(snapshots=[a_snapshot(90, 1)])
    task = build_merge_task(a_keyed(watermark=0), ORDERS, a_store(), change, policy=MergePolicy())
    assert task.base.snapshot_id is None
    assert "`base_at_none_4`" in task.sql["merged"]


def test_deletes_are_kept_only_where_a_late_change_must_lose_to_them() -> None:
    change = a_store(snapshots=[a_snapshot(90, 5)])
    policy = MergePolicy(deletes_through=4)
    ordered = build_merge_task(a_keyed(sequence_field="at"), ORDERS, a_store(), change, policy=policy).clean
    assert ordered.keep_deletes is True
    assert ordered.deletes_through == 4
    plain = build_merge_task(a_keyed(), ORDERS, a_store(), change, policy=policy).clean
    assert (plain.keep_deletes, plain.deletes_through) == (False, None)


def field(source: int, transform: str) -> Json:
    return {"source-id": source, "field-id": 1000 + source, "name": f"p{source}", "transform": transform}


def test_touched_partitions_are_asked_for_by_icebergs_own_transforms() -> None:
    base = a_store(snapshots=[a_snapshot(7, 1)], spec=[field(2, "identity"), field(3, "day"), field(1, "void")])
    change = a_store(snapshots=[a_snapshot(9, 5)])
    task = build_merge_task(a_keyed(), ORDERS, base, change, policy=MergePolicy())
    assert task.partition is not None
    assert [f.column for f in task.partition] == ["day", "at"]
    assert "`firn_job`.`system`.`days`(b.`at`) AS p1" in task.sql["touched"]


def test_floating_point_partitions_are_not_rewritten_because_engines_disagree_which_are_equal() -> None:
    fields = [{"id": 1, "name": "f", "type": "double", "required": False}]
    schemas = [{"schema-id": 4, "fields": fields}]
    assert read_partition(a_store(spec=[field(1, "identity")], schemas=schemas)) is None


@pytest.mark.parametrize("transform", ["bucket[16]", "truncate[4]", "something-new"])
def test_partitions_without_a_predicate_are_merged_with_vectors(transform: str) -> None:
    base = a_store(spec=[field(1, transform)])
    assert read_partition(base) is None
    assert merge_mode(MergeMode.REWRITE, base, None, pending_rows=1) is MergeMode.VECTORS


@pytest.mark.parametrize(
    ("size", "pending", "spec", "expected"),
    [
        (10 * MIB, 1, [], MergeMode.REWRITE),
        (900 * MIB, 1, [], MergeMode.VECTORS),
        (900 * MIB, 200, [], MergeMode.REWRITE),
        (900 * MIB, 1, [field(2, "identity")], MergeMode.AUTO),
        (900 * MIB, 200, [field(2, "identity")], MergeMode.REWRITE),
    ],
    ids=["small", "large, few changes", "large, many changes", "large, some partitions", "all partitions"],
)
def test_the_mode_follows_the_sizes(size: int, pending: int, spec: list[Json], expected: MergeMode) -> None:
    base = a_store(snapshots=[a_snapshot(7, 1, rows=1000, size=size)], spec=spec)
    assert merge_mode(MergeMode.AUTO, base, read_partition(base), pending_rows=pending) is expected


@pytest.mark.parametrize(
    ("size", "pending", "linked", "expected", "otherwise"),
    [
        (10 * MIB, 1, False, MergeMode.ADOPT, MergeMode.REWRITE),
        (10 * MIB, 20, False, MergeMode.ADOPT, MergeMode.REWRITE),
        (10 * MIB, 1, True, MergeMode.REWRITE, None),
        (900 * MIB, 1, True, MergeMode.ADOPT, MergeMode.AUTO),
        (900 * MIB, 20, False, MergeMode.REWRITE, None),
        (200 * MIB, 20, False, MergeMode.ADOPT, MergeMode.REWRITE),
        (200 * MIB, 20, True, MergeMode.REWRITE, None),
    ],
    ids=[
        "small",
        "small, many changes",
        "small and linked",
        "few changes",
        "many changes",
        "many changes, PyArrow can rewrite",
        "many changes, linked",
    ],
)
def test_auto_adopts_on_small_bases_and_few_changes_of_large_ones(
    *, size: int, pending: int, linked: bool, expected: MergeMode, otherwise: MergeMode | None
) -> None:
    base = a_store(snapshots=[a_snapshot(7, 1, rows=1000, size=size)], spec=[field(2, "identity")])
    change = a_store(snapshots=[a_snapshot(90, 5)], spec=[field(2, "identity")])
    policy = MergePolicy(is_linked=linked)
    task = build_merge_task(a_keyed(pending=pending), ORDERS, base, change, policy=policy)
    assert task.mode is expected
    assert (task.adoption.otherwise if task.adoption else None) is otherwise
    assert (task.adoption is not None and task.adoption.rewriting is not None) is (
        task.adoption is not None and not linked
    )


def test_an_adoption_writes_files_as_base_says() -> None:
    properties = {"write.parquet.compression-codec": "GZIP", "write.parquet.compression-level": "2"}
    rule = build_rewrite_rule(a_store(properties=properties), large_share=0.2, target_bytes=7)
    assert rule is not None
    assert (rule.codec, rule.level, rule.dictionary_bytes, rule.target_bytes) == ("gzip", 2, 2 * MIB, 7)
    properties = {"write.parquet.compression-codec": "snappy", "write.parquet.dict-size-bytes": "100"}
    rule = build_rewrite_rule(a_store(properties=properties), large_share=0.2, target_bytes=7)
    assert rule is not None
    assert (rule.codec, rule.level, rule.dictionary_bytes) == ("snappy", None, 100)


@pytest.mark.parametrize(
    "more",
    [
        {"default-sort-order-id": 1},
        {"properties": {"write.parquet.compression-codec": "brotli"}},
        {"properties": {"write.parquet.bloom-filter-enabled.column.id": "true"}},
        {"properties": {"write.parquet.dict-size-bytes": "many"}},
    ],
    ids=["sorted", "another codec", "Bloom filters", "no number"],
)
def test_spark_rewrites_files_with_what_pyarrow_does_not_write(more: Json) -> None:
    base = a_store(snapshots=[a_snapshot(7, 1, rows=1000, size=200 * MIB)], **more)
    assert build_rewrite_rule(base, large_share=0.2, target_bytes=7) is None
    change = a_store(snapshots=[a_snapshot(90, 5)])
    task = build_merge_task(a_keyed(pending=20), ORDERS, base, change, policy=MergePolicy())
    assert task.mode is MergeMode.REWRITE


def test_the_mode_adopt_rewrites_nothing() -> None:
    store = a_store(snapshots=[a_snapshot(7, 1, rows=1000, size=200 * MIB)])
    task = build_merge_task(a_keyed(), ORDERS, store, store, policy=MergePolicy(mode=MergeMode.ADOPT))
    assert task.adoption is not None
    assert task.adoption.rewriting is None


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"format-version": 1}, "format version 1"),
        ({"properties": {"write.format.default": "avro"}}, "base's files are avro"),
        ({"properties": {"write.merge.mode": "copy-on-write"}}, "copy-on-write"),
        ({"partition-specs": [{"spec-id": 0, "fields": [field(3, "day")]}]}, "no partition spec"),
    ],
    ids=["no deletes", "other files", "no merge on read", "other partitions"],
)
def test_spark_merges_what_cannot_be_adopted(more: Json, reason: str) -> None:
    base = a_store(snapshots=[a_snapshot(7, 1, rows=1000, size=900 * MIB)], **more)
    change = a_store(snapshots=[a_snapshot(90, 5)])
    assert reason in (find_obstacle(a_keyed(), base, change) or "")
    assert build_merge_task(a_keyed(), ORDERS, base, change, policy=MergePolicy()).mode is not MergeMode.ADOPT


def test_more_pending_bytes_than_the_builder_takes_are_merged_by_spark() -> None:
    store = a_store(snapshots=[a_snapshot(7, 1)])
    assert find_obstacle(replace(a_keyed(), pending_bytes=MOST_PENDING_BYTES), store, store) is None
    assert "bytes are pending" in (
        find_obstacle(replace(a_keyed(), pending_bytes=MOST_PENDING_BYTES + 1), store, store) or ""
    )


def test_tasks_name_tables_by_their_parts_because_parts_may_hold_dots() -> None:
    table = TableName(("db", "a.b"), "base")
    assert build_rewrite_task(table, RewritePolicy()).parts == ["db", "a.b", "base"]
    assert build_deletes_task(table, min_files=2).parts == ["db", "a.b", "base"]
    assert build_manifests_task([table], max_count=2).tables == [["db", "a.b", "base"]]


def appended(id: int, sequence: int, rows: int) -> Json:
    snapshot = a_snapshot(id, sequence)
    above = {"parent-snapshot-id": id - 1} if sequence > 4 else {}
    return snapshot | above | {"summary": {"operation": "append", "added-records": str(rows)}}


def test_a_long_backlog_is_merged_up_to_a_snapshot_and_read_from_the_head() -> None:
    base = a_store(snapshots=[a_snapshot(70, 2)])
    change = a_store(snapshots=[appended(90, 4, 10), appended(91, 5, 10), appended(92, 6, 10)])
    keyed = a_keyed(pending=3)
    task = build_merge_task(keyed, ORDERS, base, change, policy=MergePolicy(max_job_rows=25))
    assert (task.through, task.change.snapshot_id) == (5, 91)
    assert (task.pending_rows, task.left_rows) == (20, 10)
    for query in task.sql.values():
        assert "`change_at_92_4`" in query
        assert "> 3 AND c._last_updated_sequence_number <= 5" in query
    whole = build_merge_task(keyed, ORDERS, base, change, policy=MergePolicy(max_job_rows=30))
    assert (whole.through, whole.change.snapshot_id, whole.left_rows) == (6, 92, 0)
    assert "<= 6" not in whole.sql["merged"]


@pytest.mark.parametrize(("max_rows", "through"), [(10, 0), (30, 5)])
def test_merged_deletes_stay_while_the_rest_of_a_backlog_may_still_meet_them(max_rows: int, through: int) -> None:
    """However old they are: a pending change that they have beaten would take effect without them."""
    change = a_store(snapshots=[appended(90, 4, 10), appended(91, 5, 10), appended(92, 6, 10)])
    policy = MergePolicy(max_job_rows=max_rows, deletes_through=5)
    task = build_merge_task(a_keyed(sequence_field="at", pending=3), ORDERS, a_store(), change, policy=policy)
    assert task.clean.deletes_through == through
