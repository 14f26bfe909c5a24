"""What `/metrics` tells of background work, from what the database knows: the same whichever server is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catalog.jobs.optimizer_group import GroupName
from catalog.launch.fleet import LaunchStatus
from server.prometheus import Figures
from server.service.optimizers.fleet import GroupFleet
from server.service.planning.overview import Overview


def work_figures(found: Overview) -> Sequence[Figures]:
    """The queue, the slots, and what was done within the last hour."""
    oldest: dict[tuple[str, ...], float] = {(load.group.name,): 0.0 for load in found.groups}
    for one in found.waiting:
        age = (found.at - one.oldest).total_seconds()
        oldest[(one.group,)] = max(oldest.get((one.group,), 0.0), age)
    queued: dict[tuple[str, ...], float] = {
        (one.group, str(one.kind), one.priority): float(one.jobs) for one in found.waiting
    }
    done = {(str(one.kind), str(one.status)): one for one in found.last_hour}
    return [
        Figures(
            "firn_queue_oldest_seconds", "How long the oldest pending job of a group has waited.", ("group",), oldest
        ),
        Figures("firn_queue_jobs", "Pending jobs.", ("group", "kind", "priority"), queued),
        Figures(
            "firn_slots",
            "Slots of living optimizers.",
            ("group",),
            {(one.group.name,): one.slots for one in found.groups},
        ),
        Figures(
            "firn_tables",
            "Tables by their health: good from 80, fair from 50.",
            ("health",),
            {(grade,): float(count) for grade, count in found.by_health.items()},
        ),
        Figures("firn_due_tables", "Tables that the planner has still to look at.", (), {(): float(found.due_tables)}),
        Figures(
            "firn_jobs_ended_last_hour",
            "Jobs that ended within the last hour.",
            ("kind", "status"),
            {key: float(one.jobs) for key, one in done.items()},
        ),
        Figures(
            "firn_bytes_freed_last_hour",
            "Bytes that these have deleted from storage.",
            ("kind", "status"),
            {key: float(one.bytes_freed) for key, one in done.items()},
        ),
        Figures(
            "firn_bytes_rewritten_last_hour",
            "Bytes that these have written anew.",
            ("kind", "status"),
            {key: float(one.bytes_rewritten) for key, one in done.items()},
        ),
    ]


def fleet_figures(fleets: Mapping[GroupName, GroupFleet]) -> Figures:
    """The optimizers that the server starts: how many are wanted, and where launches stand."""
    values: dict[tuple[str, ...], float] = {}
    for group, fleet in fleets.items():
        values[(group, "wanted")] = fleet.decision.wanted
        values[(group, "failed")] = fleet.failures
        for status in (LaunchStatus.STARTING, LaunchStatus.WORKING, LaunchStatus.DRAINING):
            values[(group, str(status))] = fleet.count(status)
    means = "Optimizers that the server starts: wanted, and by where they stand; failed are those in a row."
    return Figures("firn_launches", means, ("group", "state"), values)
