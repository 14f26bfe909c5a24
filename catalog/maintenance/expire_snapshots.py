"""Snapshot expiry: remove old snapshots, and the files that only they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from catalog.files.manifest_entries import ManifestFile
from catalog.iceberg.json import Json
from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.keyed.spec import CHANGE, LOG_TOPIC
from catalog.maintenance.context import JobContext
from catalog.maintenance.dry_run import DryRun, TooMany, check_not_too_many, measure_gain
from catalog.maintenance.kind import WITH_QUARANTINES, MaintenanceKind
from catalog.names import TableName
from catalog.planning.dry_run_result import AffectedItems, DryRunResult
from catalog.planning.facts import Due, TableFacts
from catalog.planning.schedules import find_due_times
from catalog.planning.trigger_result import NotYet, format_count
from catalog.policy.policy import Policy
from catalog.policy.units import format_duration
from catalog.retention.expire_snapshots import (
    LEAST_AGE,
    ExpiredSnapshots,
    ExpirePolicy,
    build_expire_task,
    select_expired,
)
from catalog.tables.relation import TableStats
from firn.protocol.tasks.retention import ExpireTask

MAX_SLACK = timedelta(hours=1)
"""The longest time that an old snapshot waits for others. Otherwise a table with a commit a minute would expire every
minute.
"""
_AND = " and "
"""Joins the states of two stores."""
MAX_SNAPSHOTS_WITH_LOG = 500
"""Of each store, unless the policy names a number. Each commit writes all of them again, and drains commit for ever."""
SLACK_SHARE = 2
"""A table waits for half as many more snapshots as it may have, so that one job expires many."""
RETRY_SNAPSHOTS = 100
"""The number of new snapshots after which the planner tries again to expire ones that a job had to keep."""


def trigger(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | NotYet | None:
    """Due by the age of snapshots; with a schedule, only at its times."""
    decisions = [decision for stats in facts.expiring if (decision := _expire_store(facts, stats, now)) is not None]
    laters = [decision for decision in decisions if isinstance(decision, NotYet)]
    due = _combine_stores(
        [decision for decision in decisions if isinstance(decision, Due)], past, has_later=bool(laters)
    )
    if due is None:
        return min(laters, key=lambda later: later.next_at or now, default=None)
    if facts.policy["firn.expire.schedule"] is None:
        return due
    schedule = find_due_times(JobKind.EXPIRE, "firn.expire.schedule", facts, past, now)
    if schedule.due_since is not None:
        return due
    return NotYet(kind=JobKind.EXPIRE, reason=f"{due.reason}: it waits for its schedule", next_at=schedule.following)


def _combine_stores(stores: Sequence[Due], past: Sequence[Job], *, has_later: bool) -> Due | None:
    """One expiry of both stores; None if there is nothing new.

    If the last job could not help one store, this hides neither the other store's need nor the time when that becomes
    due.
    """
    last = next((job for job in past if job.kind is JobKind.EXPIRE), None)
    ended = last is not None and last.status in (JobStatus.SUCCEEDED, JobStatus.CANCELED)
    before = str(last.params.get("state")) if last is not None and ended else ""
    new_dues = [due for due in stores if due.state not in before.split(_AND)]
    if new_dues:
        return replace(new_dues[0], state=_AND.join(due.state for due in stores))
    return replace(stores[0], state=before) if stores and not has_later else None


def _expire_store(facts: TableFacts, stats: TableStats, now: datetime) -> Due | NotYet | None:
    keep, oldest = facts.policy["firn.expire.min-snapshots"], facts.policy["firn.expire.max-age"]
    since = stats.oldest_superseded_at
    if stats.snapshots <= keep or since is None:
        return None
    state = f"{stats.relation_id}:{since.isoformat()}:{stats.snapshots // RETRY_SNAPSHOTS}"
    most = find_max_snapshots(facts.policy, facts.stats.properties)
    if most is not None and stats.snapshots > most + most // SLACK_SHARE and now > since + LEAST_AGE + MAX_SLACK:
        return Due(kind=JobKind.EXPIRE, reason=f"{stats.snapshots:,} snapshots (limit {most:,})", state=state)
    age, limit = format_duration(now - since), format_duration(oldest)
    reason = f"{stats.snapshots:,} snapshots, the oldest superseded {age} ago (limit {limit})"
    ripe_at = since + oldest + min(oldest / 10, MAX_SLACK)
    if now <= ripe_at:
        return NotYet(kind=JobKind.EXPIRE, reason=reason, next_at=ripe_at + timedelta(seconds=1))
    return Due(kind=JobKind.EXPIRE, reason=reason, state=state)


def find_max_snapshots(policy: Policy, properties: Mapping[str, str]) -> int | None:
    """The number of snapshots that a table with these properties may have; None for no limit."""
    most: int | None = policy["firn.expire.max-snapshots"]
    least: int = policy["firn.expire.min-snapshots"]
    if most is None:
        most = MAX_SNAPSHOTS_WITH_LOG if LOG_TOPIC in properties else None
    return None if most is None else max(most, least)


def select_expired_of_tables(context: JobContext) -> list[tuple[TableName, Json, ExpiredSnapshots]]:
    """The expired snapshots of each table.

    A linked table keeps its change history, because a rebuild after a Hive overwrite replays it (docs/protocols.md,
    rule 3.2).
    """
    policy = ExpirePolicy(
        max_age=context.policy["firn.expire.max-age"],
        keep_last=context.policy["firn.expire.min-snapshots"],
        max_snapshots=find_max_snapshots(context.policy, context.main_store[1].get("properties", {})),
    )
    return [
        (
            name,
            metadata,
            select_expired(
                metadata,
                policy,
                now=context.now,
                needed=context.needed[store],
                needed_above=context.keyed.watermark if context.keyed is not None and store == CHANGE else None,
            ),
        )
        for store, name, metadata in context.stores
        if store != CHANGE or context.relation.hive_name is None
    ]


def build_task(context: JobContext) -> ExpireTask:
    """The snapshots and refs to remove from each table."""
    return build_expire_task(select_expired_of_tables(context))


@dataclass(slots=True)
class _Freed:
    """Files that only expired snapshots need."""

    files: dict[str, int] = field(default_factory=dict)
    manifests: dict[str, int] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)
    known: bool = True


def dry_run(run: DryRun) -> DryRunResult:
    """Expired snapshots and refs, and the files that only they need."""
    snapshots = refs = 0
    freed = _Freed()
    for _, metadata, going in select_expired_of_tables(run.context):
        snapshots += len(going.snapshot_ids)
        refs += len(going.refs)
        _add_freed(freed, run, metadata, set(going.snapshot_ids))
    kept = run.why_files_stay()
    notes = [] if freed.known else ["there are too many manifests to count the files while you wait"]
    notes += [] if kept is None else [f"no file would be deleted: {kept}"]
    every = {**freed.files, **freed.manifests, **freed.others} if kept is None else {}
    return DryRunResult(
        action=f"expire {format_count(snapshots, 'snapshot')}"
        + (f" and drop {format_count(refs, 'ref')}" if refs else ""),
        affected=[
            AffectedItems("snapshots", snapshots),
            AffectedItems("branches and tags", refs),
            AffectedItems("data and delete files", *_measure_sizes(freed.files if kept is None else {})),
            AffectedItems("manifests", *_measure_sizes(freed.manifests if kept is None else {})),
            AffectedItems("manifest lists and statistics", len(freed.others) if kept is None else 0),
        ],
        gain={**measure_gain(run.context.main_store[1]), "freed_files": len(every), "freed_bytes": sum(every.values())},
        exact=freed.known,
        notes=notes,
    )


def _measure_sizes(files: Mapping[str, int]) -> tuple[int, int]:
    return len(files), sum(files.values())


def _add_freed(freed: _Freed, run: DryRun, metadata: Json, leaving: set[int]) -> None:
    """Add the files that expired snapshots reach and no other snapshot reaches."""
    if not leaving:
        return
    gone, kept = (
        [snapshot for snapshot in metadata["snapshots"] if (snapshot["snapshot-id"] in leaving) is wanted]
        for wanted in (True, False)
    )
    freed.others |= {snapshot["manifest-list"]: 0 for snapshot in gone if snapshot.get("manifest-list")}
    statistics = [*(metadata.get("statistics") or ()), *(metadata.get("partition-statistics") or ())]
    freed.others |= {
        entry["statistics-path"]: int(entry.get("file-size-in-bytes") or 0)
        for entry in statistics
        if entry["snapshot-id"] in leaving
    }
    try:
        staying = _read_manifest_lists(run, metadata, kept)
        going = {name: line for name, line in _read_manifest_lists(run, metadata, gone).items() if name not in staying}
        check_not_too_many([*staying.values(), *going.values()])
    except TooMany:
        freed.known = False
        return
    freed.manifests |= {name: line.length for name, line in going.items()}
    manifests = run.manifests(metadata)
    sizes = {file.location: file.size for line in going.values() for file in manifests.files(metadata, line)}
    if sizes:
        for line in staying.values():
            for file in manifests.files(metadata, line):
                sizes.pop(file.location, None)
    freed.files |= sizes


def _read_manifest_lists(run: DryRun, metadata: Json, snapshots: list[Json]) -> dict[str, ManifestFile]:
    manifests: dict[str, ManifestFile] = {}
    for snapshot in snapshots:
        manifests |= {line.location: line for line in run.manifests(metadata).lines(metadata, snapshot)}
        check_not_too_many(manifests.values())
    return manifests


EXPIRE = MaintenanceKind(
    name=JobKind.EXPIRE,
    max_wait=timedelta(hours=3),
    trigger=trigger,
    build_task=build_task,
    dry_run=dry_run,
    tables=WITH_QUARANTINES,
)
