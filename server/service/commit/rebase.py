"""An append that was overtaken, put onto the head that has overtaken it."""

from __future__ import annotations

from dataclasses import replace

from catalog.commits.rebase import OvertakenAppend, rebase_append
from catalog.ports.manifests import ManifestLists
from server.service.commit.commit_target import CommitTarget
from server.service.commit.planned_commit import PlannedCommit, plan_commits


def plan_rebase(lists: ManifestLists, target: CommitTarget, append: OvertakenAppend) -> PlannedCommit:
    """What the append makes of the table as it is now; nothing is written yet. Raises the append's refusal."""
    metadata = target.facts.metadata
    joined = lists.joined(metadata, append)
    if joined is None:
        raise append.refusal
    (planned,) = plan_commits(target, rebase_append(metadata, append, joined), now_ms=target.now_ms)
    return replace(planned, manifest_list=joined)
