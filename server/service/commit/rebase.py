"""Rebases an append onto the snapshot of a concurrent commit that was faster."""

from __future__ import annotations

from dataclasses import replace

from catalog.commits.rebase import OvertakenAppend, rebase_append
from catalog.ports.manifests import ManifestLists
from server.service.commit.commit_target import CommitTarget
from server.service.commit.planned_commit import PlannedCommit, plan_commits


def plan_rebase(lists: ManifestLists, target: CommitTarget, append: OvertakenAppend) -> PlannedCommit:
    """Plan the append on the current table, with a new manifest list; raises the append's refusal if it cannot."""
    metadata = target.facts.metadata
    manifest_list = lists.joined(metadata, append)
    if manifest_list is None:
        raise append.refusal
    (planned,) = plan_commits(target, rebase_append(metadata, append, manifest_list), now_ms=target.now_ms)
    return replace(planned, manifest_list=manifest_list)
