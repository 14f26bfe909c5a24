"""Selects expired snapshots and refs, and builds the task of an expiry.

Each branch keeps its own history: the number and age of snapshots come from the branch, or else from the policy. A
table with more snapshots than the policy allows keeps the newest ones, and all that were heads in the last two hours.
Snapshots outside of all branches, staged or rolled back, stay as long as the policy says. A ref with an age of its own
goes when it is older, as in the table specification.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from catalog.history.lineage import Lineage
from catalog.iceberg.json import Json
from catalog.iceberg.reading import MAIN, sequence_number
from catalog.names import TableName
from catalog.timestamps import to_milliseconds
from firn.protocol.tasks.retention import ExpireTable, ExpireTask

LEAST_AGE = timedelta(hours=2)
"""No snapshot goes earlier because of the number of snapshots: somebody may be reading it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirePolicy:
    """The rules for snapshots, from the table's policy."""

    max_age: timedelta = timedelta(days=5)
    keep_last: int = 10
    max_snapshots: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredSnapshots:
    """Expired snapshots and refs of one table's metadata."""

    snapshot_ids: Sequence[int]
    refs: Mapping[str, int]
    """Expired branches and tags, with the snapshot of each."""

    def __bool__(self) -> bool:
        return bool(self.snapshot_ids or self.refs)


def select_expired(
    metadata: Json,
    policy: ExpirePolicy,
    *,
    now: datetime,
    needed: Collection[int] = (),
    needed_above: int | None = None,
) -> ExpiredSnapshots:
    """Snapshots that nobody needs. A snapshot's age counts from the time it stopped being a head, not from its
    creation (docs/protocols.md, rule 1.6).

    `needed` are the snapshots that readable versions and running jobs name. `needed_above` keeps snapshots with a
    higher sequence number: a change store's history must reach back to the watermark (docs/protocols.md, rule 3.2).
    """
    lineage = Lineage.of(metadata)
    aged = _list_aged_refs(metadata, lineage, to_milliseconds(now))
    refs = {name: ref for name, ref in (metadata.get("refs") or {}).items() if name not in aged}
    branches = [ref for ref in refs.values() if ref["type"] == "branch"]
    ends = _find_ends(metadata)
    limit = _find_limit(policy, now, ends)
    kept = {*needed, *(ref["snapshot-id"] for ref in refs.values())}
    for ref in branches:
        kept |= _list_kept(ref, policy.keep_last, limit, to_milliseconds(now), lineage, ends)
    kept |= _list_last_heads(metadata, policy.keep_last)
    on_branches = {snapshot_id for ref in branches for snapshot_id in lineage.ancestors(ref["snapshot-id"])}
    expired = [
        snapshot_id
        for snapshot_id, snapshot in lineage.snapshots.items()
        if snapshot_id not in kept
        and (snapshot_id in on_branches or ends[snapshot_id] < limit)
        and (needed_above is None or sequence_number(snapshot) <= needed_above)
    ]
    return ExpiredSnapshots(snapshot_ids=expired, refs=aged)


def build_expire_task(tables: Sequence[tuple[TableName, Json, ExpiredSnapshots]]) -> ExpireTask:
    """The task of an expiry, without tables that have no expired snapshot."""
    return ExpireTask(
        tables=[
            ExpireTable(
                parts=[*table.namespace, table.name],
                table_uuid=metadata["table-uuid"],
                snapshot_ids=sorted(going.snapshot_ids),
                refs=dict(going.refs),
            )
            for table, metadata, going in tables
            if going
        ]
    )


def _find_limit(policy: ExpirePolicy, now: datetime, ends: Mapping[int, int]) -> int:
    """Snapshots that stopped being a head before this time may go, in milliseconds."""
    limit = to_milliseconds(now - policy.max_age)
    if policy.max_snapshots is None or len(ends) <= policy.max_snapshots:
        return limit
    newest = sorted(ends.values())[-policy.max_snapshots]
    return max(limit, min(newest, to_milliseconds(now - LEAST_AGE)))


def _list_kept(
    branch: Mapping[str, Any], keep_last: int, limit: int, now_ms: int, lineage: Lineage, ends: Mapping[int, int]
) -> set[int]:
    """The snapshots of a branch's history that it keeps."""
    min_snapshots = branch.get("min-snapshots-to-keep") or keep_last
    age = branch.get("max-snapshot-age-ms")
    if age is not None:
        limit = now_ms - int(age)
    ancestors = lineage.ancestors(branch["snapshot-id"])
    return {
        snapshot_id
        for number, snapshot_id in enumerate(ancestors)
        if number < min_snapshots or ends[snapshot_id] >= limit
    }


def _list_last_heads(metadata: Json, count: int) -> set[int]:
    """The last snapshots of main, even if main no longer descends from them."""
    log = [entry["snapshot-id"] for entry in metadata.get("snapshot-log") or ()]
    return set(list(dict.fromkeys(reversed(log)))[:count])


def _list_aged_refs(metadata: Json, lineage: Lineage, now_ms: int) -> dict[str, int]:
    """Refs older than their own age limit, by their snapshot's time; main never expires."""
    aged: dict[str, int] = {}
    for name, ref in (metadata.get("refs") or {}).items():
        snapshot = lineage.snapshots.get(ref["snapshot-id"])
        age = ref.get("max-ref-age-ms")
        if name != MAIN and age is not None and snapshot is not None and now_ms - snapshot["timestamp-ms"] > age:
            aged[name] = ref["snapshot-id"]
    return aged


def _find_ends(metadata: Json) -> dict[int, int]:
    """When each snapshot was last followed by another one, in main's log or by a child."""
    ends = {snapshot["snapshot-id"]: int(snapshot["timestamp-ms"]) for snapshot in metadata.get("snapshots") or ()}
    log = metadata.get("snapshot-log") or []
    followed = [(entry["snapshot-id"], following["timestamp-ms"]) for entry, following in pairwise(log)]
    followed += [
        (snapshot["parent-snapshot-id"], snapshot["timestamp-ms"])
        for snapshot in metadata.get("snapshots") or ()
        if snapshot.get("parent-snapshot-id") is not None
    ]
    for snapshot_id, at in followed:
        if snapshot_id in ends:
            ends[snapshot_id] = max(ends[snapshot_id], int(at))
    return ends
