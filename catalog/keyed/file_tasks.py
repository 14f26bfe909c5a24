"""Tasks of jobs that change files and no rows: rewrite, compact, rewrite-deletes, rewrite-manifests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.keyed.spec import BASE, CHANGE, KeyedTable
from catalog.names import TableName
from firn.protocol.tasks.files import CompactTask, DeletesTask, ManifestsTask, RewriteStrategy, RewriteTask

MIB = 2**20
GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePolicy:
    """The rules for a table's files, from its policy or from a request for one rewrite."""

    strategy: RewriteStrategy = RewriteStrategy.BINPACK
    sort_order: Sequence[str] = ()
    filter: str | None = None
    target_file_bytes: int = 128 * MIB
    small_file_bytes: int = 96 * MIB
    min_files: int = 5
    max_delete_ratio: float = 0.2
    max_job_bytes: int = 10 * GIB
    everything: bool = False
    apply_deletes: bool = False
    """Also rewrite files with few deleted rows, or an unknown number of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactPolicy:
    """The rules for the files of a change store, from the table's policy."""

    target_file_bytes: int = 64 * MIB
    min_files: int = 10


def build_rewrite_task(table: TableName, policy: RewritePolicy) -> RewriteTask:
    """The task that rewrites files of a plain table or of a base store."""
    return RewriteTask(
        parts=[*table.namespace, table.name],
        strategy=policy.strategy,
        sort_order=list(policy.sort_order),
        filter=policy.filter,
        target_file_size=policy.target_file_bytes,
        small_file_size=policy.small_file_bytes,
        min_files=policy.min_files,
        max_delete_ratio=policy.max_delete_ratio,
        max_job_bytes=policy.max_job_bytes,
        everything=policy.everything,
        apply_deletes=policy.apply_deletes,
    )


def build_compact_task(keyed: KeyedTable, name: TableName, policy: CompactPolicy) -> CompactTask:
    """The task that packs a change store's small files.

    Merged files stay only where a sequence field gives merged deletes a meaning. Elsewhere the next clean removes
    them, so packing them would be useless.
    """
    return CompactTask(
        parts=[*name.as_namespace, CHANGE],
        watermark=keyed.watermark,
        target_file_size=policy.target_file_bytes,
        min_files=policy.min_files,
        pack_merged=keyed.spec.sequence_field is not None,
    )


def build_deletes_task(table: TableName, *, min_files: int) -> DeletesTask:
    """The task that packs and drops delete files of a plain table or of a base store."""
    return DeletesTask(parts=[*table.namespace, table.name], min_files=min_files)


def build_manifests_task(tables: Sequence[TableName], *, max_count: int) -> ManifestsTask:
    """The task that rewrites manifests of tables with more than `max_count`."""
    return ManifestsTask(tables=[[*table.namespace, table.name] for table in tables], max_count=max_count)


def name_files_table(name: TableName, *, is_keyed: bool) -> TableName:
    """The table that holds the rows: base for a keyed table, the table itself for a plain one."""
    return TableName(name.as_namespace, BASE) if is_keyed else name
