"""The task of a merge: facts of one moment, and the SQL built from them.

The optimizer knows no rules of keyed tables. It runs the SQL of its task over the tables of the Spark catalog
`firn_job`. It marks its commit with the snapshots that the task names.
"""

from __future__ import annotations

from dataclasses import dataclass

from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, current_snapshot, ref_snapshot_id
from catalog.keyed.adoption import (
    MOST_REWRITTEN_BYTES,
    build_adoption_task,
    build_rewrite_rule,
    find_obstacle,
)
from catalog.keyed.merge_chunk import choose_chunk
from catalog.keyed.partial import is_partial, read_folding
from catalog.keyed.spec import BASE, CHANGE, KeyedTable
from catalog.keyed.view_sql import (
    Expression,
    Pair,
    build_effective_sql,
    build_merged_sql,
    build_target_partitions_sql,
    build_touched_partitions_sql,
    build_update_sql,
    name_pinned_view,
    quote_name,
)
from catalog.names import TableName
from firn.protocol.tasks.merge import (
    AdoptionTask,
    BaseFacts,
    ChangeFacts,
    CleanTask,
    MergeMode,
    MergeTask,
    PartitionField,
)

JOB_CATALOG = "firn_job"
"""The Spark catalog in which an optimizer finds the tables of its job."""

MIB = 2**20
SMALL_BYTES = 16 * MIB
"""A base up to this size is adopted whatever the share of its changed rows: ten merges of 1 % each and one compaction
in Spark took a sixth of the CPU seconds of ten rewrites (docs/performance.md). Where adoption cannot be done, Spark
rewrites it: that costs about as much as finding the rows to delete in it, and leaves one file instead of four.
"""
LARGE_SHARE = 0.2
"""From this share of changed rows on, a rewrite is cheaper than deletion vectors with the reads that apply them and
the rewrite that must follow. Of 2,000,000 rows with 5, 10 and 20 % changed, a rewrite takes 2.1, 1.8 and 1.3 times as
long as vectors, and a scan afterwards two thirds (docs/performance.md).
"""

_FUNCTIONS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePolicy:
    """The rules for merges, from the table's policy."""

    mode: MergeMode = MergeMode.AUTO
    target_file_bytes: int = 128 * MIB
    deletes_through: int = 0
    """The sequence number of the change store's newest commit that is older than `firn.tombstone.max-age`."""
    max_job_rows: int | None = None
    """A longer backlog takes several merges; None merges all of it at once."""
    is_linked: bool = False
    """Whether Hive reads base's files after a publish. Then Spark rewrites a small base."""


def build_merge_task(keyed: KeyedTable, name: TableName, base: Json, change: Json, *, policy: MergePolicy) -> MergeTask:
    """The task that merges the pending changes, or their oldest part; both metadata and `keyed` are of one moment.

    `change` names the last snapshot of the merge; the SQL reads the head up to its sequence number.
    """
    chunk = choose_chunk(change, watermark=keyed.watermark, max_rows=policy.max_job_rows)
    pending = keyed.pending_commits > 0 and chunk is not None
    through = chunk.through if pending and chunk is not None else keyed.watermark
    is_last = chunk is None or chunk.is_last
    rows = keyed.pending_rows if chunk is None or is_last else chunk.rows
    left_rows = max(keyed.pending_rows - rows, 0)
    partition = read_partition(base)
    mode, adoption = _choose_mode(keyed, base, change, policy, partition, pending_rows=rows)
    return MergeTask(
        pending=pending,
        primary_key=list(keyed.spec.primary_key),
        sequence_field=keyed.spec.sequence_field,
        partial=is_partial(change),
        insert_only=keyed.spec.is_insert_only,
        scope=str(keyed.spec.scope),
        columns=columns_of(base),
        base=_build_base_facts(name, base),
        change=ChangeFacts(
            parts=[*name.as_namespace, CHANGE],
            snapshot_id=chunk.snapshot_id if chunk else ref_snapshot_id(change, "main"),
            partition_names=None if left_rows else _find_shared_partition(base, change),
        ),
        watermark=keyed.watermark,
        through=through,
        pending_rows=rows,
        left_rows=left_rows,
        mode=mode,
        adoption=adoption,
        small_bytes=SMALL_BYTES,
        large_share=LARGE_SHARE,
        target_file_size=policy.target_file_bytes,
        partition=partition,
        sql=_build_sql(keyed, name, base, change, partition, None if is_last else through) if pending else {},
        clean=build_clean_task(keyed, name, through=through, policy=policy, keep_all_deletes=not is_last),
    )


def build_clean_task(
    keyed: KeyedTable,
    name: TableName,
    *,
    through: int,
    policy: MergePolicy,
    keep_all_deletes: bool = False,
) -> CleanTask:
    """The task that removes merged files from the change store's current snapshot.

    With a sequence field, merged deletes still decide about late changes (docs/protocols.md, rule 1.2). Of files with
    deletes, only those up to `deletes_through` go. The server computes it from its stored commit times, because expiry
    shortens the store's own history.

    While a part of the backlog is pending, all files with deletes stay: they may beat pending changes.
    """
    ordered = keyed.spec.sequence_field is not None
    old_through = 0 if keep_all_deletes else policy.deletes_through
    return CleanTask(
        parts=[*name.as_namespace, CHANGE],
        through=through,
        keep_deletes=ordered,
        deletes_through=old_through if ordered else None,
    )


def _choose_mode(
    keyed: KeyedTable,
    base: Json,
    change: Json,
    policy: MergePolicy,
    partition: list[PartitionField] | None,
    *,
    pending_rows: int,
) -> tuple[MergeMode, AdoptionTask | None]:
    """The mode, and for an adoption how it goes on. Where AUTO adopts, Spark does what adoption turns out not to do."""
    mode = merge_mode(policy.mode, base, partition, pending_rows=pending_rows)
    if mode is MergeMode.ADOPT:
        return mode, build_adoption_task(base, None)
    if policy.mode is not MergeMode.AUTO or find_obstacle(keyed, base, change) is not None:
        return mode, None
    rule = build_rewrite_rule(base, large_share=LARGE_SHARE, target_bytes=policy.target_file_bytes)
    rule = None if policy.is_linked or is_partial(change) else rule
    if not _suits_adoption(base, pending_rows, policy, rewrites=rule is not None):
        return mode, None
    return MergeMode.ADOPT, build_adoption_task(base, mode, rule)


def _suits_adoption(base: Json, pending_rows: int, policy: MergePolicy, *, rewrites: bool) -> bool:
    """Whether adoption is the cheapest mode: not for changes of a large share of the rows of a large base.

    These are better rewritten, because otherwise all changed rows stay hidden in the old files. With `rewrites`, an
    adoption writes a base of moderate size again without Spark.
    """
    rows, size = _read_total(base, "total-records"), _read_total(base, "total-files-size")
    if rows is None or size is None:
        return False
    if size <= SMALL_BYTES:
        return not policy.is_linked
    return pending_rows < LARGE_SHARE * rows or (rewrites and size <= MOST_REWRITTEN_BYTES)


def merge_mode(
    wanted: MergeMode, base: Json, partition: list[PartitionField] | None, *, pending_rows: int
) -> MergeMode:
    """The mode that the known sizes call for in Spark; AUTO if it depends on the touched partitions."""
    if wanted is MergeMode.ADOPT:
        return wanted
    if partition is None:
        return MergeMode.VECTORS
    if wanted is not MergeMode.AUTO:
        return wanted
    rows, size = _read_total(base, "total-records"), _read_total(base, "total-files-size")
    if rows is None or size is None:
        return MergeMode.AUTO
    if size <= SMALL_BYTES or pending_rows >= LARGE_SHARE * rows:
        return MergeMode.REWRITE
    return MergeMode.AUTO if partition else MergeMode.VECTORS


def read_partition(base: Json) -> list[PartitionField] | None:
    """The fields of base's partition spec by column; None if its partitions cannot be written as a predicate over
    columns.

    Identity and time transforms can. Buckets and truncations cannot, nor fields inside structs. Floating point numbers
    cannot either: Spark and Iceberg compare NaN and the two zeros differently.
    """
    spec = next(spec for spec in base["partition-specs"] if spec["spec-id"] == base["default-spec-id"])
    by_id = {field["id"]: field for field in current_schema(base)["fields"]}
    fields = []
    for field in spec["fields"]:
        if field["transform"] == "void":
            continue
        source = by_id.get(field["source-id"])
        if source is None or not _has_predicate(field["transform"], source["type"]):
            return None
        fields.append(PartitionField(column=source["name"], transform=field["transform"], type=source["type"]))
    return fields


def _find_shared_partition(base: Json, change: Json) -> list[str] | None:
    """The change store's names for the fields of base's partition spec; None unless all its files have exactly this
    spec.
    """
    if len(change["partition-specs"]) > 1:
        return None
    (own,), current = change["partition-specs"], base["default-spec-id"]
    spec = next(spec for spec in base["partition-specs"] if spec["spec-id"] == current)
    names, own_fields = _read_partition_fields(own)
    return names if own_fields == _read_partition_fields(spec)[1] else None


def _read_partition_fields(spec: Json) -> tuple[list[str], list[tuple[int, str]]]:
    fields = [field for field in spec["fields"] if field["transform"] != "void"]
    return [field["name"] for field in fields], [(field["source-id"], field["transform"]) for field in fields]


def _has_predicate(transform: str, column_type: object) -> bool:
    if transform == "identity":
        return column_type not in ("float", "double")
    return transform in _FUNCTIONS


def columns_of(base: Json) -> list[str]:
    """The table's columns, in order."""
    return [field["name"] for field in current_schema(base)["fields"]]


def build_pair(keyed: KeyedTable, name: TableName, base: Json, change: Json, *, through: int | None = None) -> Pair:
    """Both stores as pinned for a job; with `through`, only changes up to it."""
    return Pair(
        spec=keyed.spec,
        columns=columns_of(base),
        base=_name_pinned(name, BASE, base),
        change=_name_pinned(name, CHANGE, change),
        watermark=keyed.watermark,
        pending=keyed.pending_commits > 0 and current_snapshot(change) is not None,
        folding=read_folding(base, change),
        through=through,
    )


def _build_sql(
    keyed: KeyedTable,
    name: TableName,
    base: Json,
    change: Json,
    partition: list[PartitionField] | None,
    through: int | None,
) -> dict[str, str]:
    pair = build_pair(keyed, name, base, change, through=through)
    sql = {"merged": build_merged_sql(pair), "effective": build_effective_sql(pair)}
    if pair.folding is not None:
        sql["update"] = build_update_sql(pair)
    if partition:
        fields = [(field.column, _make_expression(field.transform)) for field in partition]
        sql |= {
            "touched": build_touched_partitions_sql(pair, fields),
            "led_to": build_target_partitions_sql(pair, fields),
        }
    return sql


def _make_expression(transform: str) -> Expression:
    if transform == "identity":
        return lambda column: column
    function = quote_name(JOB_CATALOG, "system", _FUNCTIONS[transform])
    return lambda column: f"{function}({column})"


def _build_base_facts(name: TableName, base: Json) -> BaseFacts:
    return BaseFacts(
        parts=[*name.as_namespace, BASE],
        snapshot_id=ref_snapshot_id(base, "main"),
        spec_id=base["default-spec-id"],
        specs=len(base["partition-specs"]),
        records=_read_total(base, "total-records"),
        bytes=_read_total(base, "total-files-size"),
    )


def _name_pinned(name: TableName, store: str, metadata: Json) -> str:
    pinned = name_pinned_view(store, ref_snapshot_id(metadata, "main"), metadata["current-schema-id"])
    return quote_name(JOB_CATALOG, *name.as_namespace, pinned)


def _read_total(metadata: Json, key: str) -> int | None:
    """A total of the head's summary: 0 for a table without data, None if the head's writer left it out."""
    head = current_snapshot(metadata)
    if head is None:
        return 0
    text = (head.get("summary") or {}).get(key)
    return int(text) if text is not None else None
