"""What an optimizer is told with the lease of a job: facts of one moment, and the SQL made from them.

The optimizer knows no rules of keyed tables. It runs the SQL it is given, over tables that it finds under the Spark
catalog name `firn_job`, and signs its commit with the snapshots that the facts name.
"""

from __future__ import annotations

from dataclasses import dataclass

from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, current_snapshot, ref_snapshot_id
from catalog.keyed.merge_chunk import choose_chunk
from catalog.keyed.spec import BASE, CHANGE, KeyedTable
from catalog.keyed.view_sql import (
    Expression,
    Pair,
    build_effective_sql,
    build_merged_sql,
    build_target_partitions_sql,
    build_touched_partitions_sql,
    name_pinned_view,
    quote_name,
)
from catalog.names import TableName
from firn.protocol.tasks.merge import BaseFacts, ChangeFacts, CleanTask, MergeMode, MergeTask, PartitionField

JOB_CATALOG = "firn_job"
"""The Spark catalog under which an optimizer finds the tables of the job at hand."""

MIB = 2**20
SMALL_BYTES = 16 * MIB
"""Rewriting this much costs about as much as finding the rows to delete in it, and leaves one file instead of four:
reckoned from the throughput of rewriting 65 MiB (docs/performance.md)."""
LARGE_SHARE = 0.2
"""From this share of changed rows on writing the rows once is cheaper than vectors, the reads that must apply them, and
the rewrite that has to follow: of 2,000,000 rows with 5, 10 and 20 % changed a rewrite takes 2.1, 1.8 and 1.3 times as
long as vectors, and a scan afterwards two thirds (docs/performance.md)."""

_FUNCTIONS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePolicy:
    """What the owner of a table asked of its merges."""

    mode: MergeMode = MergeMode.AUTO
    target_file_bytes: int = 128 * MIB
    deletes_through: int = 0
    """The change store's newest commit that is older than `firn.tombstone.max-age`, by its sequence number."""
    max_job_rows: int | None = None
    """A longer backlog takes several merges; None for all of it in one."""


def build_merge_task(keyed: KeyedTable, name: TableName, base: Json, change: Json, *, policy: MergePolicy) -> MergeTask:
    """The facts for merging what is pending, or its oldest part; both metadata and `keyed` are of one moment.

    `change` names the snapshot that the merge goes through to; the SQL reads the head up to its sequence number.
    """
    chunk = choose_chunk(change, watermark=keyed.watermark, max_rows=policy.max_job_rows)
    pending = keyed.pending_commits > 0 and chunk is not None
    through = chunk.through if pending and chunk is not None else keyed.watermark
    is_last = chunk is None or chunk.is_last
    rows = keyed.pending_rows if chunk is None or is_last else chunk.rows
    left_rows = max(keyed.pending_rows - rows, 0)
    partition = read_partition(base)
    return MergeTask(
        pending=pending,
        primary_key=list(keyed.spec.primary_key),
        sequence_field=keyed.spec.sequence_field,
        scope=str(keyed.spec.scope),
        columns=columns_of(base),
        base=_base_facts(name, base),
        change=ChangeFacts(
            parts=[*name.as_namespace, CHANGE],
            snapshot_id=chunk.snapshot_id if chunk else ref_snapshot_id(change, "main"),
            partition_names=None if left_rows else _shared_partition(base, change),
        ),
        watermark=keyed.watermark,
        through=through,
        pending_rows=rows,
        left_rows=left_rows,
        mode=merge_mode(policy.mode, base, partition, pending_rows=rows),
        small_bytes=SMALL_BYTES,
        large_share=LARGE_SHARE,
        target_file_size=policy.target_file_bytes,
        partition=partition,
        sql=_sql(keyed, name, base, change, partition, None if is_last else through) if pending else {},
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
    """The facts for taking merged files out of the change store's current snapshot.

    With a sequence field, merged deletes still decide about late changes (docs/protocols.md, rule 1.2): of files that
    hold some only those up to `deletes_through` go. It is told from the times of commits that the server remembers:
    the store's own metadata remembers what expiry has left, which is less than that age. While the rest of a backlog
    is pending all of them stay: it was beaten by these deletes, and would not be without them.
    """
    ordered = keyed.spec.sequence_field is not None
    old_through = 0 if keep_all_deletes else policy.deletes_through
    return CleanTask(
        parts=[*name.as_namespace, CHANGE],
        through=through,
        keep_deletes=ordered,
        deletes_through=old_through if ordered else None,
    )


def merge_mode(
    wanted: MergeMode, base: Json, partition: list[PartitionField] | None, *, pending_rows: int
) -> MergeMode:
    """The mode that the sizes known here speak for; AUTO where that depends on which partitions are touched."""
    if partition is None:
        return MergeMode.VECTORS
    if wanted is not MergeMode.AUTO:
        return wanted
    rows, size = _total(base, "total-records"), _total(base, "total-files-size")
    if rows is None or size is None:
        return MergeMode.AUTO
    if size <= SMALL_BYTES or pending_rows >= LARGE_SHARE * rows:
        return MergeMode.REWRITE
    return MergeMode.AUTO if partition else MergeMode.VECTORS


def read_partition(base: Json) -> list[PartitionField] | None:
    """The fields of base's partition spec by column; None where its partitions have no predicate over columns.

    Identity and time transforms have one; buckets and truncations have not, nor have fields inside structs here, nor
    floating point numbers: Spark takes NaN and the two zeros for equal to themselves and each other, Iceberg does not.
    """
    spec = next(one for one in base["partition-specs"] if one["spec-id"] == base["default-spec-id"])
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


def _shared_partition(base: Json, change: Json) -> list[str] | None:
    """What the change store calls the fields of base's partition spec; None unless all its files lie by these alone."""
    if len(change["partition-specs"]) > 1:
        return None
    (own,), current = change["partition-specs"], base["default-spec-id"]
    spec = next(one for one in base["partition-specs"] if one["spec-id"] == current)
    names, said = _said(own)
    return names if said == _said(spec)[1] else None


def _said(spec: Json) -> tuple[list[str], list[tuple[int, str]]]:
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
    """Both stores as they are pinned for a job, changes up to `through` alone if it is given."""
    return Pair(
        spec=keyed.spec,
        columns=columns_of(base),
        base=_pinned(name, BASE, base),
        change=_pinned(name, CHANGE, change),
        watermark=keyed.watermark,
        pending=keyed.pending_commits > 0 and current_snapshot(change) is not None,
        through=through,
    )


def _sql(
    keyed: KeyedTable,
    name: TableName,
    base: Json,
    change: Json,
    partition: list[PartitionField] | None,
    through: int | None,
) -> dict[str, str]:
    pair = build_pair(keyed, name, base, change, through=through)
    sql = {"merged": build_merged_sql(pair), "effective": build_effective_sql(pair)}
    if partition:
        fields = [(field.column, _transform(field.transform)) for field in partition]
        sql |= {
            "touched": build_touched_partitions_sql(pair, fields),
            "led_to": build_target_partitions_sql(pair, fields),
        }
    return sql


def _transform(transform: str) -> Expression:
    if transform == "identity":
        return lambda column: column
    function = quote_name(JOB_CATALOG, "system", _FUNCTIONS[transform])
    return lambda column: f"{function}({column})"


def _base_facts(name: TableName, base: Json) -> BaseFacts:
    return BaseFacts(
        parts=[*name.as_namespace, BASE],
        snapshot_id=ref_snapshot_id(base, "main"),
        spec_id=base["default-spec-id"],
        specs=len(base["partition-specs"]),
        records=_total(base, "total-records"),
        bytes=_total(base, "total-files-size"),
    )


def _pinned(name: TableName, store: str, metadata: Json) -> str:
    pinned = name_pinned_view(store, ref_snapshot_id(metadata, "main"), metadata["current-schema-id"])
    return quote_name(JOB_CATALOG, *name.as_namespace, pinned)


def _total(metadata: Json, key: str) -> int | None:
    """One of the head's totals: 0 for a table without data, None where the head's writer left it out."""
    head = current_snapshot(metadata)
    if head is None:
        return 0
    text = (head.get("summary") or {}).get(key)
    return int(text) if text is not None else None
