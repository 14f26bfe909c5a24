"""All work that a server does by itself: the one list of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from server.background.cleanup import Cleanup
from server.background.driver import Driver, TaskDef
from server.background.leadership import Leadership
from server.service.access.cleanup import AccessCleanup
from server.service.planning.planner_loop import PlannerStatus
from server.service.services import Services
from server.settings import BackgroundSettings, Settings


@dataclass(frozen=True, slots=True)
class Background:
    """The server's own work and whether this server does it."""

    driver: Driver
    leadership: Leadership


def build_background(settings: Settings, services: Services) -> Background:
    """All background tasks, started and stopped together."""
    leadership = Leadership(services.database, timedelta(seconds=settings.background.leader_seconds))

    def poke(name: str) -> None:
        driver.poke(name)  # which there is once the tasks are known

    tasks = [
        *_optimizing(settings.background, services, leadership, poke),
        *_starting(settings, services),
        *_taking_over(settings.background, services, leadership),
        *_keeping(settings, services),
        *_access_tasks(settings, services),
    ]
    driver = Driver(tasks, leadership.leads)
    services.hive.poke = lambda: driver.poke("upgrade")
    services.hive.poke_publishes = lambda: driver.poke("publish")
    services.hive.poke_downgrades = lambda: driver.poke("downgrade")
    services.hive.notification_listener.poke = lambda: driver.poke("sync")
    services.imports.signals.poke = lambda: driver.poke("import")
    return Background(driver, leadership)


def _optimizing(
    every: BackgroundSettings, services: Services, leadership: Leadership, poke: Callable[[str], None]
) -> list[TaskDef]:
    def plan() -> PlannerStatus:
        status = services.planner_loop.run_once(leadership.fence())
        if status.to_count:
            poke("count_files")  # not the other way round: a table with a commit a second would have both run on and on
        return status

    return [
        TaskDef(
            name="plan",
            does="plans jobs for tables that changed or whose time has come",
            every_seconds=every.plan_seconds,
            activate=plan,
        ),
        TaskDef(
            name="count_files",
            does="counts how the files of tables lie that have changed",
            every_seconds=every.plan_seconds,
            activate=services.file_layouts.run_once,
        ),
        TaskDef(
            name="reap",
            does="ends the leases of silent optimizers and settles what they left",
            every_seconds=every.reap_seconds,
            activate=services.jobs.reap,
        ),
    ]


def _starting(settings: Settings, services: Services) -> list[TaskDef]:
    return [
        TaskDef(
            name="fleet",
            does="starts, watches and ends the optimizers of groups that want it",
            every_seconds=settings.optimizers.scaling_seconds,
            activate=services.fleet.activate,
        ),
    ]


def _taking_over(every: BackgroundSettings, services: Services, leadership: Leadership) -> list[TaskDef]:
    return [
        TaskDef(
            name="list_hive",
            does="lists the tables of linked metastores",
            every_seconds=every.hive_index_seconds,
            activate=services.hive.index.activate,
        ),
        TaskDef(
            name="upgrade",
            does="carries out upgrades and their checks that were started, also those of a server that died",
            every_seconds=every.operation_seconds,
            activate=lambda: services.hive.upgrades.activate(leadership.leads),
        ),
        TaskDef(
            name="sync",
            does="takes over what Hive-side writers did to linked tables",
            every_seconds=every.hive_sync_seconds,
            activate=services.hive.syncs.activate,
        ),
        TaskDef(
            name="hear_hive",
            does="follows what metastores log of changes, so that the tables named there are synced at once",
            every_seconds=every.hive_events_seconds,
            activate=services.hive.notification_listener.activate,
        ),
        TaskDef(
            name="publish",
            does="plans what linked tables are to give to Hive, as somebody has asked or their policy says",
            every_seconds=every.hive_sync_seconds,
            activate=services.hive.publishes.activate,
        ),
        TaskDef(
            name="downgrade",
            does="carries on with giving tables back to Hive",
            every_seconds=every.operation_seconds,
            activate=services.hive.downgrades.activate,
        ),
        TaskDef(
            name="marks",
            does="takes away the marks that dropped tables have left on Hive's",
            every_seconds=every.hive_sync_seconds,
            activate=services.hive.marks.activate,
        ),
        TaskDef(
            name="import",
            does="carries out imports that were started, also those of a server that died",
            every_seconds=every.operation_seconds,
            activate=services.imports.activate,
        ),
    ]


def _keeping(settings: Settings, services: Services) -> list[TaskDef]:
    every = settings.background
    return [
        TaskDef(
            name="purge",
            does="forgets what was dropped once it is kept no longer, and deletes the files that are to go",
            every_seconds=every.purge_seconds,
            activate=services.purges.activate,
        ),
        TaskDef(
            name="reports",
            does="writes what engines have reported of scans and commits",
            every_seconds=every.reports_seconds,
            activate=services.reports.flush,
            on_every_server=True,
        ),
        TaskDef(
            name="tidy_reports",
            does="forgets old reports of scans and commits",
            every_seconds=every.cleanup_seconds,
            activate=services.reports.remove_expired,
        ),
        TaskDef(
            name="tidy",
            does="forgets old answers, optimizers that are gone, old jobs, and what imports of long ago have found",
            every_seconds=every.cleanup_seconds,
            activate=Cleanup(services.database, timedelta(days=settings.jobs_retention_days)).activate,
        ),
    ]


def _access_tasks(settings: Settings, services: Services) -> list[TaskDef]:
    access = services.access
    if not access.enabled:
        return []
    kept = timedelta(days=settings.access.audit_retention_days)
    access_cleanup = AccessCleanup(services.database, access.token_checker, access.audit_log, kept)
    return [
        TaskDef(
            name="audit",
            does="writes the reads that were audited and when tokens were used",
            every_seconds=settings.access.audit_flush_seconds,
            activate=access_cleanup.flush,
            on_every_server=True,
        ),
        TaskDef(
            name="tidy_access",
            does="forgets old audit entries and tokens that have ended",
            every_seconds=settings.background.cleanup_seconds,
            activate=access_cleanup.remove_expired,
        ),
    ]
