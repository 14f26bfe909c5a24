"""The health score: from 100, a table without maintenance to do, down to 0, and the parts that take points.

Each part measures the whole table, not only its due jobs. A part takes half of its points when its job is due, and all
at twice that value. So a table that gets worse never gains points.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from catalog.files.file_layout import FEWEST_FILES
from catalog.maintenance.merge import measure_pending, read_merge_trigger
from catalog.maintenance.rewrite import WITH_VECTORS, describe_packable, measure_spread
from catalog.planning.facts import TableFacts
from catalog.planning.trigger_result import format_count
from catalog.policy.units import format_duration
from catalog.tables.relation import TableStats
from firn.protocol.health import HealthPart

POINTS = {
    HealthPart.SMALL_FILES: 30,
    HealthPart.DELETES: 25,
    HealthPart.PENDING: 20,
    HealthPart.SNAPSHOTS: 10,
    HealthPart.SKEW: 10,
    HealthPart.MANIFESTS: 5,
}
_SKEW_LIMIT = 4.0
"""The ratio of the largest partition to the average one at which readers wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLoss:
    """The points that one part takes, its maximum, and the figure behind it."""

    part: HealthPart
    points_lost: float
    max_points: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The health of a table; the score is 100 if there is nothing to do."""

    score: int
    parts: tuple[HealthLoss, ...]


def compute_health(facts: TableFacts, now: datetime, *, skew: float | None = None) -> Health:
    """The health of a table. `skew` (see _SKEW_LIMIT) is None unless a user had the manifests read."""
    parts = [
        _measure_small_files(facts),
        _measure_deletes(facts),
        _measure_pending_changes(facts, now),
        _measure_snapshots(facts, now),
        _measure_manifests(facts),
    ]
    if skew is not None:
        detail = f"the largest partition has {skew:.1f} times the average"
        parts.append(_make_loss(HealthPart.SKEW, (skew - 1) / (_SKEW_LIMIT - 1), detail))
    return Health(score=round(100 - sum(loss.points_lost for loss in parts)), parts=tuple(parts))


def _make_loss(part: HealthPart, reached: float, detail: str) -> HealthLoss:
    """The loss of one part; `reached` is 1 when its job is due."""
    share = min(max(reached, 0.0) / 2, 1.0)
    return HealthLoss(part=part, points_lost=round(POINTS[part] * share, 2), max_points=POINTS[part], detail=detail)


def _measure_small_files(facts: TableFacts) -> HealthLoss:
    """Counts small files that a job can pack, by number and as a share of all: twenty among ten thousand hardly show.

    Small files that lie alone in their partitions take no points, because no job can pack them.
    """
    layout, min_files = facts.layout, max(facts.policy["firn.rewrite.min-files"], FEWEST_FILES)
    if layout is None:
        return _make_loss(HealthPart.SMALL_FILES, 0, "not counted yet" if facts.stats.snapshot_id else "no files")
    planned, files = layout.planned.packable_files, max(layout.data_files, 1)
    reached = max(
        planned / files * planned / min_files, layout.requested.saved_files / files * measure_spread(layout, min_files)
    )
    small = f"{layout.small_files:,} of {format_count(layout.data_files, 'file')} small"
    detail = f"{small}, {describe_packable(layout, min_files)}"
    return _make_loss(HealthPart.SMALL_FILES, reached, detail)


def _measure_deletes(facts: TableFacts) -> HealthLoss:
    """Deleted rows that readers skip, or delete files that they read in addition: the worse of both."""
    stats, most = facts.stats, facts.policy["firn.rewrite.max-delete-ratio"]
    rows = facts.deleted_share / max(most, 0.001)
    many = stats.delete_files / facts.policy["firn.deletes.min-files"]
    small = 0 if facts.layout is None else facts.layout.small_files
    large = max(stats.data_files - small, 0)
    besides = stats.delete_files / (large + stats.delete_files) if stats.delete_files else 0.0
    files = 0.0 if stats.format_version >= WITH_VECTORS else min(many, 2.0) * min(2 * besides, 1.0)
    detail = f"{facts.deleted_share:.0%} of rows deleted, {format_count(stats.delete_files, 'delete file')}"
    return _make_loss(HealthPart.DELETES, max(rows, files), detail)


def _measure_pending_changes(facts: TableFacts, now: datetime) -> HealthLoss:
    """How close the next merge is by its amounts. Age alone does not slow readers."""
    keyed = facts.keyed
    if keyed is None or not keyed.pending_commits:
        return _make_loss(HealthPart.PENDING, 0, "nothing pending")
    waiting = measure_pending(facts, keyed, (), now)
    detail = f"{format_count(keyed.pending_rows, 'row')} pending in {format_count(keyed.pending_commits, 'commit')}"
    return _make_loss(HealthPart.PENDING, read_merge_trigger(facts.policy).reached(waiting) or 0.0, detail)


def _measure_snapshots(facts: TableFacts, now: datetime) -> HealthLoss:
    """Snapshots that are due for expiry, by how long the oldest is overdue."""
    return max(
        (_measure_overdue_expiry(facts, stats, now) for stats in facts.expiring), key=lambda loss: loss.points_lost
    )


def _measure_overdue_expiry(facts: TableFacts, stats: TableStats, now: datetime) -> HealthLoss:
    since, oldest = stats.oldest_superseded_at, facts.policy["firn.expire.max-age"]
    detail = format_count(stats.snapshots, "snapshot")
    if since is None or stats.snapshots <= facts.policy["firn.expire.min-snapshots"] or now - since <= oldest:
        return _make_loss(HealthPart.SNAPSHOTS, 0, detail)
    over = (now - since - oldest).total_seconds() / max(oldest.total_seconds(), 3600)
    return _make_loss(HealthPart.SNAPSHOTS, over, f"{detail}, the oldest superseded {format_duration(now - since)} ago")


def _measure_manifests(facts: TableFacts) -> HealthLoss:
    count, most = facts.stats.manifests, facts.policy["firn.manifests.max-count"]
    if count is None:
        return _make_loss(HealthPart.MANIFESTS, 0, "the last writer did not count them")
    return _make_loss(HealthPart.MANIFESTS, (count - 1) / most, f"{format_count(count, 'manifest')} (limit {most:,})")
