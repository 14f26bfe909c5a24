"""Sizes and limits of jobs that pack files, shared by the job, its dry run and its prediction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.files.file_layout import APPLY_DELETES, FEWEST_FILES
from catalog.iceberg.json import Json
from catalog.keyed.file_tasks import CompactPolicy, RewritePolicy, build_compact_task, build_rewrite_task
from catalog.keyed.spec import KeyedTable
from catalog.names import TableName
from catalog.policy.policy import Policy
from firn.protocol.tasks.files import RewriteStrategy

PLANNED_FILES = 5
"""The small files of a partition that an unscheduled rewrite needs; fewer if the policy says so."""
_ANY = TableName(("any",), "any")
_SIZES = {"target_file_size", "small_file_size", "min_files", "max_delete_ratio", "max_job_bytes"}
_PACKS = {"watermark", "target_file_size", "min_files", "pack_merged"}


def rewrite_policy(policy: Policy, params: Mapping[str, Any]) -> RewritePolicy:
    """The rules of a rewrite with these parameters, for a table with this policy."""
    planned = max(FEWEST_FILES, min(PLANNED_FILES, policy["firn.rewrite.min-files"]))
    return RewritePolicy(
        strategy=RewriteStrategy(params.get("strategy") or policy["firn.rewrite.strategy"]),
        sort_order=params.get("sort_order") or policy["firn.rewrite.sort-order"] or (),
        filter=params.get("filter") or policy["firn.rewrite.filter"],
        target_file_bytes=policy["firn.rewrite.target-file-size"],
        small_file_bytes=policy["firn.rewrite.small-file-size"],
        min_files=int(params.get("min_files") or planned),
        max_delete_ratio=policy["firn.rewrite.max-delete-ratio"],
        max_job_bytes=policy["firn.rewrite.max-job-size"],
        everything=bool(params.get("everything")),
        apply_deletes=bool(params.get(APPLY_DELETES)),
    )


def compact_policy(policy: Policy, params: Mapping[str, Any]) -> CompactPolicy:
    """The rules of a compaction with these parameters, for a table with this policy."""
    return CompactPolicy(
        target_file_bytes=policy["firn.compact.target-file-size"],
        min_files=int(params.get("min_files") or policy["firn.compact.min-files"]),
    )


def rewrite_rule(policy: Policy) -> Json:
    """The part of a planned rewrite's task that selects files."""
    task = build_rewrite_task(_ANY, rewrite_policy(policy, {}))
    return task.model_dump(include=_SIZES)


def compact_rule(policy: Policy, keyed: KeyedTable) -> Json:
    """The part of a planned compaction's task that selects files."""
    task = build_compact_task(keyed, _ANY, compact_policy(policy, {}))
    return task.model_dump(include=_PACKS)
