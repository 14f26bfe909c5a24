"""Tasks of jobs that change files: a table's policy, and what whoever asked for the job wants otherwise."""

from __future__ import annotations

from typing import Any

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.job import Job
from catalog.keyed.file_tasks import (
    CompactPolicy,
    RewritePolicy,
    RewriteStrategy,
    compact_task,
    deletes_task,
    files_of,
    manifests_task,
    rewrite_task,
)
from catalog.keyed.spec import BASE, CHANGE, KeyedTable
from catalog.names import TableName
from catalog.planning.files import APPLY_DELETES
from catalog.policy.policy import Policy

LEAST_FILES = 2
"""Asked for by somebody, a job does what can be done at all."""
PLANNED_FILES = 5
"""Or fewer, where the owner wants a rewrite of fewer."""


def rewrite(job: Job, policy: Policy, *, is_keyed: bool) -> Json:
    """Of a plain table, or of a keyed table's base."""
    asked = job.params
    wanted = RewritePolicy(
        strategy=RewriteStrategy(asked.get("strategy") or policy["firn.rewrite.strategy"]),
        sort_order=asked.get("sort_order") or policy["firn.rewrite.sort-order"] or (),
        filter=asked.get("filter") or policy["firn.rewrite.filter"],
        target_file_bytes=policy["firn.rewrite.target-file-size"],
        small_file_bytes=policy["firn.rewrite.small-file-size"],
        min_files=int(asked.get("min_files") or max(LEAST_FILES, min(PLANNED_FILES, policy["firn.rewrite.min-files"]))),
        max_delete_ratio=policy["firn.rewrite.max-delete-ratio"],
        max_job_bytes=policy["firn.rewrite.max-job-size"],
        everything=bool(asked.get("everything")),
        apply_deletes=bool(asked.get(APPLY_DELETES)),
    )
    return rewrite_task(files_of(job.table, is_keyed=is_keyed), wanted)


def compact(job: Job, policy: Policy, keyed: KeyedTable) -> Json:
    """Of a keyed table's change store."""
    wanted = CompactPolicy(
        target_file_bytes=policy["firn.compact.target-file-size"],
        min_files=int(job.params.get("min_files") or policy["firn.compact.min-files"]),
    )
    return compact_task(keyed, job.table, wanted)


def deletes(job: Job, policy: Policy, *, is_keyed: bool) -> Json:
    """Of a plain table, or of a keyed table's base: a change store has none."""
    least = int(job.params.get("min_files") or policy["firn.deletes.min-files"])
    return deletes_task(files_of(job.table, is_keyed=is_keyed), min_files=least)


def manifests(job: Job, policy: Policy, *, is_keyed: bool) -> Json:
    """Of a plain table, or of both stores."""
    name = job.table
    tables = [TableName(name.as_namespace, store) for store in (BASE, CHANGE)] if is_keyed else [name]
    return manifests_task(tables, max_count=int(job.params.get("max_count") or policy["firn.manifests.max-count"]))


def rewrite_params(
    *, strategy: RewriteStrategy | None, sort_order: list[str], where: str | None, everything: bool
) -> dict[str, Any]:
    """What somebody asks of one rewrite, as its job remembers it; Invalid when it makes no sense."""
    if sort_order and strategy not in (RewriteStrategy.SORT, RewriteStrategy.ZORDER):
        raise Invalid("columns to sort by, but no strategy that sorts", hint="add the strategy sort or zorder")
    if where is not None and not where.strip():
        raise Invalid("the condition is empty", hint="leave it out to rewrite files of the whole table")
    asked: dict[str, Any] = {
        "strategy": None if strategy is None else str(strategy),
        "sort_order": sort_order,
        "filter": where,
        "everything": everything,
    }
    return {"min_files": str(LEAST_FILES)} | {key: value for key, value in asked.items() if value}
