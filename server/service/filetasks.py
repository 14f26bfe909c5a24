"""Tasks of jobs that change files: a table's policy, and what whoever asked for the job wants otherwise."""

from __future__ import annotations

from typing import Any

from catalog.errors import Invalid
from catalog.file_layout import FEWEST_FILES
from catalog.iceberg.json import Json
from catalog.job import Job
from catalog.keyed.file_tasks import (
    RewriteStrategy,
    compact_task,
    deletes_task,
    files_of,
    manifests_task,
    rewrite_task,
)
from catalog.keyed.spec import BASE, CHANGE, KeyedTable
from catalog.names import TableName
from catalog.planning.file_rules import compact_policy, rewrite_policy
from catalog.policy.policy import Policy


def rewrite(job: Job, policy: Policy, *, is_keyed: bool) -> Json:
    """Of a plain table, or of a keyed table's base."""
    return rewrite_task(files_of(job.table, is_keyed=is_keyed), rewrite_policy(policy, job.params))


def compact(job: Job, policy: Policy, keyed: KeyedTable) -> Json:
    """Of a keyed table's change store."""
    return compact_task(keyed, job.table, compact_policy(policy, job.params))


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
    return {"min_files": str(FEWEST_FILES)} | {key: value for key, value in asked.items() if value}
