"""What jobs that pack files are told of sizes and limits: one place for the job, its dry run and its prediction."""

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
"""Or fewer, where the owner wants a rewrite of fewer."""
_ANY = TableName(("any",), "any")
_SIZES = {"target_file_size", "small_file_size", "min_files", "max_delete_ratio", "max_job_bytes"}
_PACKS = {"watermark", "target_file_size", "min_files", "pack_merged"}


def rewrite_policy(policy: Policy, asked: Mapping[str, Any]) -> RewritePolicy:
    """What a rewrite with these parameters is to do to a table of this policy."""
    planned = max(FEWEST_FILES, min(PLANNED_FILES, policy["firn.rewrite.min-files"]))
    return RewritePolicy(
        strategy=RewriteStrategy(asked.get("strategy") or policy["firn.rewrite.strategy"]),
        sort_order=asked.get("sort_order") or policy["firn.rewrite.sort-order"] or (),
        filter=asked.get("filter") or policy["firn.rewrite.filter"],
        target_file_bytes=policy["firn.rewrite.target-file-size"],
        small_file_bytes=policy["firn.rewrite.small-file-size"],
        min_files=int(asked.get("min_files") or planned),
        max_delete_ratio=policy["firn.rewrite.max-delete-ratio"],
        max_job_bytes=policy["firn.rewrite.max-job-size"],
        everything=bool(asked.get("everything")),
        apply_deletes=bool(asked.get(APPLY_DELETES)),
    )


def compact_policy(policy: Policy, asked: Mapping[str, Any]) -> CompactPolicy:
    """The same of a compaction."""
    return CompactPolicy(
        target_file_bytes=policy["firn.compact.target-file-size"],
        min_files=int(asked.get("min_files") or policy["firn.compact.min-files"]),
    )


def rewrite_rule(policy: Policy) -> Json:
    """What decides which files a planned rewrite takes."""
    task = build_rewrite_task(_ANY, rewrite_policy(policy, {}))
    return task.model_dump(include=_SIZES)


def compact_rule(policy: Policy, keyed: KeyedTable) -> Json:
    """What decides which files a planned compaction packs."""
    task = build_compact_task(keyed, _ANY, compact_policy(policy, {}))
    return task.model_dump(include=_PACKS)
