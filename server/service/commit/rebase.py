"""Rebases an append onto the snapshot of a concurrent commit that was faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catalog.commits.rebase import OvertakenAppend, rebase_append
from catalog.iceberg.json import Json
from catalog.keyed.log_stamp import stamp_log
from catalog.ports.manifests import ManifestLists
from server.service.commit.commit_target import CommitTarget
from server.service.commit.planned_commit import PlannedCommit, plan_commits


def plan_rebase(lists: ManifestLists, target: CommitTarget, append: OvertakenAppend) -> PlannedCommit:
    """Plan the append on the current table, with a new manifest list; raises the append's refusal if it cannot."""
    metadata = target.facts.metadata
    manifest_list = lists.joined(metadata, append)
    if manifest_list is None:
        raise append.refusal
    updates = _stamp(target, rebase_append(metadata, append, manifest_list))
    (planned,) = plan_commits(target, updates, now_ms=target.now_ms)
    return replace(planned, manifest_list=manifest_list)


def _stamp(target: CommitTarget, updates: Sequence[Json]) -> list[Json]:
    """The updates with the position of the log that the new head has (docs/protocols.md, rule 6.6)."""
    store = target.facts.store
    if store is None:
        return [*updates]
    return [
        stamp_log(store.base, store.change, update) if update["action"] == "add-snapshot" else update
        for update in updates
    ]
