"""The metrics of background work. They come from the database, so every server exposes the same values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catalog.jobs.optimizer_group import GroupName
from catalog.launch.fleet import LaunchStatus
from server.prometheus import Figures
from server.service.optimizers.fleet_values import GroupFleet
from server.service.planning.overview import Overview


def build_work_figures(overview: Overview) -> Sequence[Figures]:
    """Measure the queue, the slots, the tables, and the jobs that ended within the last hour."""
    return [*_queue_figures(overview), *_table_figures(overview), *_finished_figures(overview)]


def _queue_figures(overview: Overview) -> Sequence[Figures]:
    oldest: dict[tuple[str, ...], float] = {(load.group.name,): 0.0 for load in overview.groups}
    for pending in overview.waiting:
        age = (overview.at - pending.oldest).total_seconds()
        oldest[(pending.group,)] = max(oldest.get((pending.group,), 0.0), age)
    queued: dict[tuple[str, ...], float] = {
        (pending.group, str(pending.kind), pending.priority): float(pending.jobs) for pending in overview.waiting
    }
    slots: dict[tuple[str, ...], float] = {(load.group.name,): load.slots for load in overview.groups}
    return [
        Figures(
            "firn_queue_oldest_seconds", "How long the oldest pending job of a group has waited.", ("group",), oldest
        ),
        Figures("firn_queue_jobs", "Pending jobs.", ("group", "kind", "priority"), queued),
        Figures("firn_slots", "Slots of live optimizers.", ("group",), slots),
    ]


def _table_figures(overview: Overview) -> Sequence[Figures]:
    by_health: dict[tuple[str, ...], float] = {(grade,): float(count) for grade, count in overview.by_health.items()}
    due: dict[tuple[str, ...], float] = {(): float(overview.due_tables)}
    return [
        Figures("firn_tables", "Tables by their health: good from 80, fair from 50.", ("health",), by_health),
        Figures("firn_due_tables", "Tables that the planner has still to assess.", (), due),
    ]


def _finished_figures(overview: Overview) -> Sequence[Figures]:
    finished = {(str(jobs.kind), str(jobs.status)): jobs for jobs in overview.last_hour}
    return [
        Figures(
            "firn_jobs_ended_last_hour",
            "Jobs that ended within the last hour.",
            ("kind", "status"),
            {key: float(jobs.jobs) for key, jobs in finished.items()},
        ),
        Figures(
            "firn_bytes_freed_last_hour",
            "Bytes that these jobs deleted from storage.",
            ("kind", "status"),
            {key: float(jobs.bytes_freed) for key, jobs in finished.items()},
        ),
        Figures(
            "firn_bytes_rewritten_last_hour",
            "Bytes that these jobs rewrote.",
            ("kind", "status"),
            {key: float(jobs.bytes_rewritten) for key, jobs in finished.items()},
        ),
    ]


def build_fleet_figures(fleets: Mapping[GroupName, GroupFleet]) -> Figures:
    """Measure the optimizers that the server starts: the wanted number, and launches by state."""
    values: dict[tuple[str, ...], float] = {}
    for group, fleet in fleets.items():
        values[(group, "wanted")] = fleet.decision.wanted
        values[(group, "failed")] = fleet.failures
        for status in (LaunchStatus.STARTING, LaunchStatus.WORKING, LaunchStatus.DRAINING):
            values[(group, str(status))] = fleet.count(status)
    meaning = "Optimizers that the server starts: wanted, and launches by state; failed counts consecutive failures."
    return Figures("firn_launches", meaning, ("group", "state"), values)
