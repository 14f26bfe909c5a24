"""Counters of a table. Each snapshot's summary advances them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from catalog.history.commit import CommitEvent
from catalog.iceberg.json import Json
from catalog.iceberg.summaries import HIGHEST_COUNT, TOTALS, read_number
from catalog.iceberg.table import current_snapshot
from catalog.tables.relation import COLLECTED, TableStats

LONGEST_ENGINE = 255


_EMPTY: Mapping[str, Any] = {
    "snapshot_id": None,
    **dict.fromkeys(("records", "data_files", "delete_files", "bytes", "position_deletes", "equality_deletes"), 0),
}
"""The counters of a table whose head is gone."""


def advance_stats(stats: TableStats, metadata: Json, event: CommitEvent) -> TableStats:
    """The counters after the commit that produced this metadata."""
    head = current_snapshot(metadata)
    counted = replace(
        stats,
        snapshots=len(metadata.get("snapshots", ())),
        schema_id=metadata["current-schema-id"],
        spec_id=metadata.get("default-spec-id", 0),
        last_commit_at=event.committed_at,
        last_operation=event.operation,
        oldest_superseded_at=_find_oldest_superseded(metadata),
        format_version=metadata.get("format-version", 2),
        properties={key: value for key, value in metadata.get("properties", {}).items() if _is_read_by_planner(key)},
    )
    if head is None:
        return counted if stats.snapshot_id is None else replace(counted, **_EMPTY, epoch=stats.epoch + 1)
    if head["snapshot-id"] == stats.snapshot_id:
        return counted
    summary = head.get("summary") or {}
    return replace(
        counted,
        snapshot_id=head["snapshot-id"],
        epoch=stats.epoch + (not _is_plain_append(stats, head)),
        sequence_number=head.get("sequence-number", 0),
        records=read_number(summary, "total-records"),
        data_files=read_number(summary, "total-data-files"),
        delete_files=read_number(summary, "total-delete-files"),
        bytes=read_number(summary, "total-files-size"),
        position_deletes=read_number(summary, "total-position-deletes"),
        equality_deletes=read_number(summary, "total-equality-deletes"),
        manifests=_count_manifests(summary),
    )


def _is_read_by_planner(key: str) -> bool:
    return key.startswith("firn.") or key == COLLECTED


def add_totals(changed: Mapping[str, Any], parent: Json | None) -> dict[str, str]:
    """The totals of a child of `parent` whose summary has these changes. Totals that the parent lacks are left out.

    None stands for the state before the first snapshot, when all totals are 0.
    """
    before: Mapping[str, Any] = dict.fromkeys(TOTALS, "0") if parent is None else parent.get("summary") or {}
    totals = {total: changes for total, changes in TOTALS.items() if str(before.get(total)).isdecimal()}
    return {
        total: str(max(read_number(before, total) + read_number(changed, plus) - read_number(changed, minus), 0))
        for total, (plus, minus) in totals.items()
    }


def _find_oldest_superseded(metadata: Json) -> datetime | None:
    """When the oldest snapshot stopped being the head; the list is in the order of commits.

    Ignores snapshots on a branch or tag: they stay however old they are, so they give expiry nothing to do.
    """
    snapshots = metadata.get("snapshots", ())
    held = {ref.get("snapshot-id") for ref in (metadata.get("refs") or {}).values()}
    free = (after for snapshot, after in itertools.pairwise(snapshots) if snapshot["snapshot-id"] not in held)
    first = next(free, None)
    return None if first is None else datetime.fromtimestamp(first["timestamp-ms"] / 1000, UTC)


def _count_manifests(summary: Mapping[str, Any]) -> int | None:
    """The number of manifests in the snapshot, where its engine counts them."""
    if "manifests-created" not in summary or "manifests-kept" not in summary:
        return None
    return read_number(summary, "manifests-created") + read_number(summary, "manifests-kept")


def _is_plain_append(stats: TableStats, head: Json) -> bool:
    """Whether the new head has all files of the previous head, without new deletes."""
    summary = head.get("summary") or {}
    return (
        head.get("parent-snapshot-id") == stats.snapshot_id
        and summary.get("operation") == "append"
        and not any(read_number(summary, key) for key in ("deleted-data-files", "added-delete-files"))
    )


def describe_snapshots(event: CommitEvent, snapshots: Sequence[Json]) -> CommitEvent:
    """A commit event with the summaries of its snapshots, at least one. Counts are summed; the rest is the last one's.

    PyIceberg overwrites with two snapshots, one that deletes and one that appends.
    """
    summaries: list[Mapping[str, str]] = [snapshot.get("summary") or {} for snapshot in snapshots]
    operations = {summary.get("operation", "unknown") for summary in summaries}
    summary, last = summaries[-1], snapshots[-1]

    def total(key: str) -> int:
        return min(sum(read_number(summary, key) for summary in summaries), HIGHEST_COUNT)

    return replace(
        event,
        snapshot_id=last["snapshot-id"],
        parent_id=last.get("parent-snapshot-id"),
        sequence_number=last.get("sequence-number"),
        operation=operations.pop() if len(operations) == 1 else "overwrite",
        added_rows=total("added-records"),
        added_bytes=total("added-files-size"),
        added_files=total("added-data-files"),
        removed_rows=total("deleted-records"),
        removed_files=total("deleted-data-files"),
        writer_id=summary.get("firn.writer-id"),
        batch_id=summary.get("firn.batch-id"),
        engine=read_engine(summary) or event.engine,
        summary=dict(summary),
    )


def read_engine(summary: Mapping[str, str]) -> str | None:
    """The engine's own name for itself. A request's User-Agent names only its library."""
    name = summary.get("engine-name")
    return None if name is None else f"{name} {summary.get('engine-version', '')}".strip()[:LONGEST_ENGINE]
