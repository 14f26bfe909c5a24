"""Which snapshots and refs may go, and what an expiry is told.

Each branch keeps its own history: as many snapshots, and for as long, as it says itself or else the policy. What no
branch stands on, staged or rolled back, is kept as long as the policy says. A ref that was given an age goes when it is
older, as the table specification has it.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirePolicy:
    """What the owner of a table asked of its snapshots."""

    max_age: timedelta = timedelta(days=5)
    keep_last: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredSnapshots:
    """What may leave one table's metadata."""

    snapshot_ids: Sequence[int]
    refs: Mapping[str, int]
    """Branches and tags whose time is over, with the snapshot that each was seen at."""

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
    """What nobody needs, by when each snapshot stopped being a head, not by when it was made
    (docs/protocols.md, rule 1.6).

    `needed` are those that offered versions and running jobs name. `needed_above` keeps those with a higher sequence
    number: a change store's history must reach back to the watermark (docs/protocols.md, rule 3.2).
    """
    lineage = Lineage.of(metadata)
    aged = _aged_refs(metadata, lineage, to_milliseconds(now))
    refs = {name: ref for name, ref in (metadata.get("refs") or {}).items() if name not in aged}
    branches = [ref for ref in refs.values() if ref["type"] == "branch"]
    ends = _ends(metadata)
    kept = {*needed, *(ref["snapshot-id"] for ref in refs.values())}
    for ref in branches:
        kept |= _kept_by(ref, policy, now, lineage, ends)
    kept |= _last_heads(metadata, policy.keep_last)
    limit = to_milliseconds(now - policy.max_age)
    on_branches = {one for ref in branches for one in lineage.ancestors(ref["snapshot-id"])}
    found = [
        snapshot_id
        for snapshot_id, snapshot in lineage.snapshots.items()
        if snapshot_id not in kept
        and (snapshot_id in on_branches or ends[snapshot_id] < limit)
        and (needed_above is None or sequence_number(snapshot) <= needed_above)
    ]
    return ExpiredSnapshots(snapshot_ids=found, refs=aged)


def build_expire_task(tables: Sequence[tuple[TableName, Json, ExpiredSnapshots]]) -> ExpireTask:
    """The facts for an expiry; tables that nothing leaves are left out."""
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


def _kept_by(
    branch: Mapping[str, Any], policy: ExpirePolicy, now: datetime, lineage: Lineage, ends: Mapping[int, int]
) -> set[int]:
    """The part of a branch's history that it keeps."""
    least = branch.get("min-snapshots-to-keep") or policy.keep_last
    age = branch.get("max-snapshot-age-ms")
    limit = to_milliseconds(now - policy.max_age) if age is None else to_milliseconds(now) - int(age)
    ancestors = lineage.ancestors(branch["snapshot-id"])
    return {one for number, one in enumerate(ancestors) if number < least or ends[one] >= limit}


def _last_heads(metadata: Json, count: int) -> set[int]:
    """What main was lately, whether or not it still stands on that."""
    log = [entry["snapshot-id"] for entry in metadata.get("snapshot-log") or ()]
    return set(list(dict.fromkeys(reversed(log)))[:count])


def _aged_refs(metadata: Json, lineage: Lineage, now_ms: int) -> dict[str, int]:
    """Older than they were to become, by their snapshot's time; main stays whatever it says."""
    aged: dict[str, int] = {}
    for name, ref in (metadata.get("refs") or {}).items():
        snapshot = lineage.snapshots.get(ref["snapshot-id"])
        age = ref.get("max-ref-age-ms")
        if name != MAIN and age is not None and snapshot is not None and now_ms - snapshot["timestamp-ms"] > age:
            aged[name] = ref["snapshot-id"]
    return aged


def _ends(metadata: Json) -> dict[int, int]:
    """When each snapshot was last followed by another, in main's log or by a child of its own."""
    ends = {one["snapshot-id"]: int(one["timestamp-ms"]) for one in metadata.get("snapshots") or ()}
    log = metadata.get("snapshot-log") or []
    followed = [(entry["snapshot-id"], following["timestamp-ms"]) for entry, following in pairwise(log)]
    followed += [
        (one["parent-snapshot-id"], one["timestamp-ms"])
        for one in metadata.get("snapshots") or ()
        if one.get("parent-snapshot-id") is not None
    ]
    for snapshot_id, at in followed:
        if snapshot_id in ends:
            ends[snapshot_id] = max(ends[snapshot_id], int(at))
    return ends
