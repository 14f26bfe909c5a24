"""What engines may not do to a keyed table's stores (docs/architecture.md#keyed-tables,
docs/protocols.md#keyed-tables).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from catalog.errors import CommitRefused
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from catalog.jobs.job import JobKind
from catalog.keyed.schema import OP_ID, build_change_schema
from catalog.keyed.spec import (
    LOG_POSITION,
    LOG_TOPIC,
    LOG_TOPIC_ID,
    LOOKED_AT_CHANGE,
    MERGED_BASE,
    MERGED_CHANGE,
    MERGED_FROM,
    MERGED_THROUGH,
    RESOLVED_BASE,
)
from catalog.keyed.store_commit import StoreCommit, guard_commit, read_watermark
from catalog.maintenance import kind_of
from catalog.tables.relation import RelationKind
from tests.catalog.keyed.keyed_commits import BASE, CHANGE, COLUMNS, SPEC, a_store, after, snapshot
from tests.factories import a_keyed_table


def commit(role: RelationKind, updates: list[Json], **changes: Any) -> StoreCommit:
    store_commit = StoreCommit(
        role=role, keyed=a_keyed_table(spec=SPEC), base=BASE, change=CHANGE, updates=updates, job_kind=None
    )
    kind = changes.get("job_kind")
    operations = frozenset() if kind is None else kind_of(kind).commits.get(role, frozenset())
    return replace(store_commit, job_operations=operations, **changes)


def refused(commit: StoreCommit, match: str) -> None:
    with pytest.raises(CommitRefused, match=match):
        guard_commit(commit)


def test_every_base_snapshot_is_stamped_with_its_parents_watermark() -> None:
    stamped = guard_commit(commit(RelationKind.BASE, snapshot(BASE, 1)))
    assert stamped[0]["snapshot"]["summary"][MERGED_THROUGH] == "0"
    base = after(BASE, snapshot(BASE, 1, **{MERGED_THROUGH: "5"}))
    stamped = guard_commit(commit(RelationKind.BASE, snapshot(base, 2, "replace"), base=base))
    assert read_watermark(after(base, stamped)) == 5


@pytest.mark.parametrize("operation", ["overwrite", "delete", "replace"])
def test_a_change_store_takes_appends_alone(operation: str) -> None:
    refused(commit(RelationKind.CHANGE, snapshot(CHANGE, 71, operation)), "appended changes only")


def test_the_change_store_has_no_partitions_that_base_never_had() -> None:
    field = {"name": "id_bucket", "transform": "bucket[4]", "source-id": 1, "field-id": 1000}
    added: Json = {"action": "add-spec", "spec": {"spec-id": 1, "fields": [field]}}
    refused(commit(RelationKind.CHANGE, [added]), "in which base never was")
    assert guard_commit(commit(RelationKind.BASE, [added])) == [added]
    assert guard_commit(commit(RelationKind.CHANGE, [added], base=after(BASE, [added]))) == [added]


@pytest.mark.parametrize("kind", JobKind)
@pytest.mark.parametrize("role", [RelationKind.BASE, RelationKind.CHANGE])
@pytest.mark.parametrize("operation", ["append", "overwrite", "delete", "replace"])
def test_a_job_brings_what_its_kind_is_for_and_nothing_else(kind: JobKind, role: RelationKind, operation: str) -> None:
    base, change = RelationKind.BASE, RelationKind.CHANGE
    allowed = {
        *[
            (job_kind, base, "replace")
            for job_kind in (JobKind.REWRITE, JobKind.REWRITE_DELETES, JobKind.REWRITE_MANIFESTS, JobKind.PUBLISH)
        ],
        *[(job_kind, change, "replace") for job_kind in (JobKind.COMPACT, JobKind.REWRITE_MANIFESTS)],
        *[(job_kind, change, "delete") for job_kind in (JobKind.MERGE, JobKind.CLEAN, JobKind.SYNC, JobKind.TTL)],
        *[
            (job_kind, base, any_)
            for job_kind in (JobKind.MERGE, JobKind.SYNC)
            for any_ in ("append", "overwrite", "delete")
        ],
        (JobKind.SYNC, change, "append"),
        (JobKind.CONVERT, base, "append"),  # into empty stores alone, check_filling sees to that
        *[(JobKind.TTL, base, any_) for any_ in ("append", "overwrite", "delete")],  # it may be a merge
        *[(JobKind.KEYS, base, any_) for any_ in ("overwrite", "delete")],
    }
    signed = {JobKind.TTL: {LOOKED_AT_CHANGE: "70"}, JobKind.KEYS: {RESOLVED_BASE: "none"}}.get(kind, {})
    store_commit = commit(role, snapshot(BASE if role is base else CHANGE, 99, operation, **signed), job_kind=kind)
    if (kind, role, operation) in allowed:
        guard_commit(store_commit)
    else:
        refused(store_commit, f"a {kind} job does not {operation} on the {role} store")


@pytest.mark.parametrize("kind", [JobKind.COMPACT, JobKind.REWRITE_MANIFESTS])
def test_packing_a_change_store_keeps_its_rows(kind: JobKind) -> None:
    counts = {"added-records": "7", "deleted-records": "7", "total-records": "9"}
    keyed = a_keyed_table(spec=SPEC, pending_rows=9)
    packed = commit(RelationKind.CHANGE, snapshot(CHANGE, 71, "replace", **counts), job_kind=kind, keyed=keyed)
    guard_commit(packed)
    refused(replace(packed, keyed=replace(keyed, pending_rows=10)), "those that they replace")
    for other in ({"added-records": "6"}, {"added-records": "8"}):
        lost = snapshot(CHANGE, 71, "replace", **counts | other)
        refused(replace(packed, updates=lost), "those that they replace")


def test_a_clean_by_firn_passes_unless_it_would_drop_pending_changes() -> None:
    updates = snapshot(CHANGE, 71, "delete", **{"total-records": "3"})
    three, four = (a_keyed_table(spec=SPEC, pending_rows=rows) for rows in (3, 4))
    guard_commit(commit(RelationKind.CHANGE, updates, job_kind=JobKind.CLEAN, keyed=three))
    refused(commit(RelationKind.CHANGE, updates, job_kind=JobKind.CLEAN, keyed=four), "not merged yet")


@pytest.mark.parametrize("operation", ["overwrite", "delete"])
def test_removing_rows_from_base_waits_for_the_merge(operation: str) -> None:
    updates = snapshot(BASE, 1, operation)
    refused(commit(RelationKind.BASE, updates, keyed=a_keyed_table(spec=SPEC, pending_commits=1)), "merge first")
    guard_commit(commit(RelationKind.BASE, updates))


def test_a_ttl_job_alone_deletes_from_base_while_changes_are_pending() -> None:
    """It has looked that none of them is about a row that it deletes."""
    updates, pending = (
        snapshot(BASE, 1, "delete", **{LOOKED_AT_CHANGE: "70"}),
        a_keyed_table(spec=SPEC, pending_commits=1),
    )
    for kind in (None, JobKind.MERGE, JobKind.SYNC):
        refused(commit(RelationKind.BASE, updates, keyed=pending, job_kind=kind), "merge first")
    stamped = guard_commit(commit(RelationKind.BASE, updates, keyed=pending, job_kind=JobKind.TTL))
    assert stamped[0]["snapshot"]["summary"][MERGED_THROUGH] == "0"
    refused(commit(RelationKind.BASE, updates, keyed=pending, job_kind=JobKind.TTL, linked=True), "linked to Hive")


@pytest.mark.parametrize("operation", ["append", "overwrite", "delete"])
def test_base_of_a_hive_table_takes_no_rows_that_a_rebuild_would_not_find(operation: str) -> None:
    updates = snapshot(BASE, 1, operation)
    refused(commit(RelationKind.BASE, updates, linked=True), "linked to Hive")
    guard_commit(commit(RelationKind.BASE, snapshot(BASE, 1, "replace"), linked=True))


def test_old_rows_stay_where_a_late_change_has_come_that_they_beat() -> None:
    """Base has a key with 10 and an old time, then the key comes with 5 and loses: without the row it would appear."""
    later = after(CHANGE, snapshot(CHANGE, 71))
    packed = after(CHANGE, snapshot(CHANGE, 71, "replace"))
    unordered = a_keyed_table(spec=replace(SPEC, sequence_field=None))
    for facts in (
        {LOOKED_AT_CHANGE: "70"},
        {MERGED_FROM: "0", MERGED_THROUGH: "1", MERGED_BASE: "none", MERGED_CHANGE: "70"},
    ):
        updates = snapshot(BASE, 1, "delete", **facts)
        store_commit = commit(RelationKind.BASE, updates, job_kind=JobKind.TTL)
        refused(replace(store_commit, change=later), "new changes arrived while")
        guard_commit(store_commit)
        guard_commit(replace(store_commit, change=packed))
        guard_commit(replace(store_commit, change=later, keyed=unordered))
    for unknown in ({}, {LOOKED_AT_CHANGE: "none"}, {LOOKED_AT_CHANGE: "9"}):
        updates = snapshot(BASE, 1, "delete", **unknown)
        refused(commit(RelationKind.BASE, updates, job_kind=JobKind.TTL), "new changes arrived while")
    empty = snapshot(BASE, 1, "delete", **{LOOKED_AT_CHANGE: "none"})
    guard_commit(commit(RelationKind.BASE, empty, job_kind=JobKind.TTL, change=a_store(COLUMNS)))


def merged(**changes: str) -> list[Json]:
    facts = {MERGED_FROM: "0", MERGED_THROUGH: "1", MERGED_BASE: "none", MERGED_CHANGE: "70"}
    return snapshot(BASE, 1, "overwrite", **facts | changes)


def test_a_merge_that_names_what_it_read_passes() -> None:
    stamped = guard_commit(commit(RelationKind.BASE, merged(), job_kind=JobKind.MERGE))
    assert read_watermark(after(BASE, stamped)) == 1


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({MERGED_BASE: "9"}, "has changed since"),
        ({MERGED_FROM: "1"}, "stands at 0"),
        ({MERGED_CHANGE: "9"}, "not the sequence number"),
        ({MERGED_THROUGH: "2"}, "not the sequence number"),
        ({MERGED_THROUGH: "x"}, "not a sequence number"),
    ],
)
def test_a_merge_that_read_something_else_is_refused(wrong: dict[str, str], match: str) -> None:
    refused(commit(RelationKind.BASE, merged(**wrong), job_kind=JobKind.MERGE), match)


def test_only_a_merge_job_may_move_the_watermark() -> None:
    refused(commit(RelationKind.BASE, merged()), "only a merge job")
    replaced = snapshot(BASE, 1, "replace", **{MERGED_THROUGH: "1"})
    refused(commit(RelationKind.BASE, replaced, job_kind=JobKind.REWRITE), "only a merge job")


@pytest.mark.parametrize("role", [RelationKind.BASE, RelationKind.CHANGE])
@pytest.mark.parametrize(
    ("update", "match"),
    [
        ({"action": "set-snapshot-ref", "ref-name": "dev", "type": "branch", "snapshot-id": 70}, "no branches"),
        ({"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}, "set back"),
        ({"action": "remove-snapshot-ref", "ref-name": "main"}, "not allowed"),
        ({"action": "assign-uuid", "uuid": "22222222-2222-4222-8222-222222222222"}, "not allowed"),
        ({"action": "set-location", "location": "file:/elsewhere"}, "not allowed"),
        ({"action": "upgrade-format-version", "format-version": 2}, "not allowed"),
        ({"action": "set-properties", "updates": {"gc.enabled": "true"}}, "fixed"),
        ({"action": "remove-properties", "removals": ["firn.primary-key"]}, "fixed"),
        ({"action": "remove-snapshots", "snapshot-ids": [70]}, "only Firn expires"),
    ],
)
def test_what_would_move_a_store_alone_is_refused(role: RelationKind, update: Json, match: str) -> None:
    refused(commit(role, [update]), match)


@pytest.mark.parametrize("role", [RelationKind.BASE, RelationKind.CHANGE])
def test_staged_snapshots_and_strange_parents_are_refused(role: RelationKind) -> None:
    store = BASE if role is RelationKind.BASE else CHANGE
    refused(commit(role, snapshot(store, 80)[:1]), "staged")
    added, ref = snapshot(store, 80)
    strange = {**added, "snapshot": {**added["snapshot"], "parent-snapshot-id": 12345}}
    refused(commit(role, [strange, ref]), "parent is not the head")


def test_expiry_keeps_what_versions_name() -> None:
    update: Json = {"action": "remove-snapshots", "snapshot-ids": [70]}
    refused(
        commit(RelationKind.CHANGE, [update], job_kind=JobKind.EXPIRE, protected_snapshots=[70]), "readers may still"
    )
    guard_commit(commit(RelationKind.CHANGE, [update], job_kind=JobKind.EXPIRE))


@pytest.mark.parametrize("column", ["id", "at"])
def test_key_and_sequence_columns_can_be_neither_dropped_nor_renamed(column: str) -> None:
    schema = current_schema(BASE)
    dropped = {**schema, "fields": [field for field in schema["fields"] if field["name"] != column]}
    named = {**schema, "fields": [{**f, "name": "other"} if f["name"] == column else f for f in schema["fields"]]}
    for altered in (dropped, named):
        refused(commit(RelationKind.BASE, [{"action": "add-schema", "schema": altered}]), f"column '{column}'")


def test_a_column_added_to_the_change_store_gets_the_id_that_it_has_in_base() -> None:
    schema = build_change_schema(current_schema(BASE))
    kind = {"type": "list", "element-id": OP_ID + 6, "element": "string", "element-required": False}
    new = {"id": OP_ID + 5, "name": "extra", "required": False, "type": kind}
    change = {**CHANGE, "schemas": [{**schema, "schema-id": 0}], "current-schema-id": 0}
    altered = {**schema, "fields": [*schema["fields"], new]}
    stamped = guard_commit(commit(RelationKind.CHANGE, [{"action": "add-schema", "schema": altered}], change=change))
    column = stamped[0]["schema"]["fields"][-1]
    assert (column["id"], column["type"]["element-id"]) == (4, 5)


WITH_LOG = {**BASE, "properties": {**BASE["properties"], LOG_TOPIC: "orders"}}


def stamp(
    change: Json, snapshot_id: int, summary: dict[str, str], base: Json = WITH_LOG, operation: str = "append"
) -> Json:
    """The change store after a commit, as the guard has it stored."""
    updates = snapshot(change, snapshot_id, operation, **summary)
    job = JobKind.COMPACT if operation == "replace" else None
    store_commit = commit(RelationKind.CHANGE, updates, base=base, change=change, job_kind=job)
    return after(change, guard_commit(store_commit))


def log_of(change: Json) -> tuple[str | None, str | None]:
    summary = change["snapshots"][-1]["summary"]
    return summary.get(LOG_POSITION), summary.get(LOG_TOPIC_ID)


def test_every_change_snapshot_is_stamped_with_the_position_of_the_log() -> None:
    """Rule 6.6: those of the drain, of other writers and of jobs, and nobody but the drain moves it."""
    step = {"firn.writer-id": "log", "firn.position": "orders:0:5", LOG_TOPIC_ID: "a"}
    drained = stamp(CHANGE, 71, step)
    assert log_of(drained) == ("orders:0:5", "a")
    other = stamp(drained, 72, {"firn.writer-id": "w", "firn.position": "elsewhere:0:9", LOG_POSITION: "orders:0:99"})
    assert log_of(other) == ("orders:0:5", "a")
    packed = stamp(other, 73, {"added-records": "2", "deleted-records": "2", "total-records": "9"}, operation="replace")
    assert log_of(packed) == ("orders:0:5", "a")
    again = stamp(packed, 74, {**step, "firn.position": "orders:0:8", LOG_TOPIC_ID: "b"})
    assert log_of(again) == ("orders:0:8", "b")


def test_without_a_log_there_is_no_stamp_and_none_comes_before_the_first_drain() -> None:
    assert log_of(stamp(CHANGE, 71, {LOG_POSITION: "orders:0:1"})) == (None, None)
    step = {"firn.writer-id": "log", "firn.position": "orders:0:5", LOG_POSITION: "orders:0:5"}
    assert log_of(stamp(CHANGE, 71, step, base=BASE)) == (None, None)


def test_the_topic_is_fixed_when_a_table_is_created() -> None:
    for role in (RelationKind.BASE, RelationKind.CHANGE):
        change: Json = {"action": "set-properties", "updates": {LOG_TOPIC: "other"}}
        refused(commit(role, [change], base=WITH_LOG), "is fixed when it is created")
