"""The registry of all background tasks of the server."""

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
    """The background tasks, and whether this server runs them."""

    driver: Driver
    leadership: Leadership


def build_background(settings: Settings, services: Services) -> Background:
    """All background tasks, started and stopped together."""
    leadership = Leadership(services.database, timedelta(seconds=settings.background.leader_seconds))

    def poke(name: str) -> None:
        driver.poke(name)  # the driver exists once the tasks are known

    tasks = [
        *_optimizing(settings.background, services, leadership, poke),
        *_stream_and_pipeline_tasks(settings.background, services),
        *_lineage_tasks(settings, services),
        *_notification_tasks(settings, services),
        *_fleet_tasks(settings, services, leadership),
        *_hive_tasks(settings.background, services, leadership),
        *_publish_tasks(settings.background, services),
        *_import_tasks(settings.background, services),
        *_cleanup_tasks(settings, services),
        *_query_tasks(settings.background, services),
        *_access_tasks(settings, services),
        *_hadoop_tasks(services),
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
            poke("count_files")  # not in reverse, or a table with a commit per second would run both without end
        return status

    return [
        TaskDef(
            name="plan",
            does="plans jobs for changed and due tables",
            every_seconds=every.plan_seconds,
            activate=plan,
        ),
        TaskDef(
            name="count_files",
            does="counts the files of changed tables",
            every_seconds=every.plan_seconds,
            activate=services.file_layouts.run_once,
        ),
        TaskDef(
            name="index_search",
            does="indexes changed tables and views for the search",
            every_seconds=every.search_seconds,
            activate=services.search_indexing.run_once,
        ),
        _sample_trends(every, services),
        TaskDef(
            name="reap",
            does="ends leases of silent optimizers and settles their jobs",
            every_seconds=every.reap_seconds,
            activate=services.jobs.reap,
        ),
    ]


def _sample_trends(every: BackgroundSettings, services: Services) -> TaskDef:
    return TaskDef(
        name="sample_trends",
        does="samples tables, namespaces and catalogs for their trends",
        every_seconds=every.trends_seconds,
        activate=services.trend_sampling.run_once,
    )


def _stream_and_pipeline_tasks(every: BackgroundSettings, services: Services) -> list[TaskDef]:
    return [
        TaskDef(
            name="pipelines",
            does="starts the runs of pipelines that their triggers ask for",
            every_seconds=every.plan_seconds,
            activate=_reports(services.pipeline_triggers.run_once, "run started", "runs started"),
        ),
        TaskDef(
            name="reap_streams",
            does="ends leases of silent optimizers on streams",
            every_seconds=every.reap_seconds,
            activate=_reports(services.stream_leases.reap, "lease ended", "leases ended"),
        ),
        TaskDef(
            name="measure_streams",
            does="measures how far streams that do not run are behind",
            every_seconds=every.reap_seconds,
            activate=_reports(services.streams.measure, "stream measured", "streams measured"),
        ),
    ]


def _lineage_tasks(settings: Settings, services: Services) -> list[TaskDef]:
    events = services.lineage_events
    tasks = [
        TaskDef(
            name="collect_lineage",
            does="reads lineage from changed views and pipelines, commits and scans",
            every_seconds=settings.background.lineage_seconds,
            activate=_reports(services.lineage.collecting.run_once, "change", "changes"),
        ),
        TaskDef(
            name="tidy_lineage",
            does="removes lineage that nobody has seen for long",
            every_seconds=settings.background.cleanup_seconds,
            activate=_reports(services.lineage.collecting.remove_expired, "edge", "edges"),
        ),
    ]
    if events is None:
        return tasks
    return [
        *tasks,
        TaskDef(
            name="lineage",
            does="sends OpenLineage events of runs of pipelines",
            every_seconds=settings.lineage.seconds,
            activate=events.activate,
        ),
    ]


def _notification_tasks(settings: Settings, services: Services) -> list[TaskDef]:
    return [
        TaskDef(
            name="notify",
            does="looks for problems and sends the messages of rules",
            every_seconds=settings.notifications.seconds,
            activate=services.outbox.run_once,
        ),
        TaskDef(
            name="send_events",
            does="sends table events to the receivers of rules",
            every_seconds=settings.notifications.event_seconds,
            activate=services.event_delivery.run_once,
        ),
        TaskDef(
            name="tidy_notifications",
            does="removes old messages of rules",
            every_seconds=settings.background.cleanup_seconds,
            activate=_reports(lambda: services.outbox.tidy() + services.event_delivery.tidy(), "message", "messages"),
        ),
    ]


def _reports(activate: Callable[[], int], singular: str, plural: str) -> Callable[[], str]:
    """A task that counts what it has done, for people: `1 run started`."""

    def run() -> str:
        count = activate()
        return f"{count:,} {singular if count == 1 else plural}" if count else "nothing to do"

    return run


def _fleet_tasks(settings: Settings, services: Services, leadership: Leadership) -> list[TaskDef]:
    return [
        TaskDef(
            name="fleet",
            does="starts, watches and stops the optimizers of groups with launch settings",
            every_seconds=settings.optimizers.scaling_seconds,
            activate=lambda: services.fleet.activate(leadership.fence()),
        ),
    ]


def _hive_tasks(every: BackgroundSettings, services: Services, leadership: Leadership) -> list[TaskDef]:
    return [
        TaskDef(
            name="list_hive",
            does="lists the tables of linked metastores",
            every_seconds=every.hive_index_seconds,
            activate=services.hive.index.activate,
        ),
        TaskDef(
            name="upgrade",
            does="runs started upgrades and checks, also those of a server that died",
            every_seconds=every.operation_seconds,
            activate=lambda: services.hive.upgrades.activate(leadership.leads),
        ),
        TaskDef(
            name="sync",
            does="syncs changes of Hive-side writers to linked tables",
            every_seconds=every.hive_sync_seconds,
            activate=services.hive.syncs.activate,
        ),
        TaskDef(
            name="hear_hive",
            does="follows the metastores' notification logs and triggers syncs at once",
            every_seconds=every.hive_events_seconds,
            activate=services.hive.notification_listener.activate,
        ),
    ]


def _publish_tasks(every: BackgroundSettings, services: Services) -> list[TaskDef]:
    return [
        TaskDef(
            name="publish",
            does="plans publishes of linked tables, by request or policy",
            every_seconds=every.hive_sync_seconds,
            activate=services.hive.publishes.activate,
        ),
        TaskDef(
            name="downgrade",
            does="runs started downgrades to Hive",
            every_seconds=every.operation_seconds,
            activate=services.hive.downgrades.activate,
        ),
        TaskDef(
            name="marks",
            does="removes marks of dropped tables from Hive tables",
            every_seconds=every.hive_sync_seconds,
            activate=services.hive.marks.activate,
        ),
    ]


def _import_tasks(every: BackgroundSettings, services: Services) -> list[TaskDef]:
    return [
        TaskDef(
            name="import",
            does="runs started imports, also those of a server that died",
            every_seconds=every.operation_seconds,
            activate=services.imports.activate,
        ),
    ]


def _cleanup_tasks(settings: Settings, services: Services) -> list[TaskDef]:
    every = settings.background
    return [
        TaskDef(
            name="purge",
            does="removes dropped tables after their retention and purges their files",
            every_seconds=every.purge_seconds,
            activate=services.purges.activate,
        ),
        TaskDef(
            name="images",
            does="deletes the files of images that no reader needs any more",
            every_seconds=every.cleanup_seconds,
            activate=services.images.retention.activate,
        ),
        TaskDef(
            name="reports",
            does="stores engines' reports of scans and commits",
            every_seconds=every.reports_seconds,
            activate=services.reports.flush,
            on_every_server=True,
        ),
        TaskDef(
            name="tidy_reports",
            does="removes old reports of scans and commits",
            every_seconds=every.cleanup_seconds,
            activate=services.reports.remove_expired,
        ),
        TaskDef(
            name="tidy",
            does="removes old idempotency keys, optimizers, jobs and import entries",
            every_seconds=every.cleanup_seconds,
            activate=Cleanup(services.database, timedelta(days=settings.jobs_retention_days)).activate,
        ),
    ]


def _query_tasks(every: BackgroundSettings, services: Services) -> list[TaskDef]:
    return [
        TaskDef(
            name="reap_queries",
            does="fails queries whose optimizer is silent, or that no optimizer takes",
            every_seconds=every.reap_seconds,
            activate=_reports(services.queries.spark.reap, "query failed", "queries failed"),
        ),
        TaskDef(
            name="tidy_queries",
            does="removes old results and the history of queries, and ends queries whose server has stopped",
            every_seconds=every.cleanup_seconds,
            activate=_reports(services.queries.tidy, "query", "queries"),
        ),
        TaskDef(
            name="idle_engines",
            does="ends processes of queries that nobody has used for a while",
            every_seconds=every.cleanup_seconds,
            activate=_reports(lambda: _end_idle_engines(services), "process ended", "processes ended"),
            on_every_server=True,
        ),
    ]


def _end_idle_engines(services: Services) -> int:
    return services.previews.end_idle() + services.hive.checks.row_sampler.end_idle()


def _access_tasks(settings: Settings, services: Services) -> list[TaskDef]:
    access = services.access
    if not access.enabled:
        return []
    kept = timedelta(days=settings.access.audit_retention_days)
    access_cleanup = AccessCleanup(services.database, access.token_checker, access.audit_log, kept)
    return [
        TaskDef(
            name="audit",
            does="stores audited reads and the last use of tokens",
            every_seconds=settings.access.audit_flush_seconds,
            activate=access_cleanup.flush,
            on_every_server=True,
        ),
        TaskDef(
            name="tidy_access",
            does="removes old audit entries and ended tokens",
            every_seconds=settings.background.cleanup_seconds,
            activate=access_cleanup.remove_expired,
        ),
    ]


def _hadoop_tasks(services: Services) -> list[TaskDef]:
    clusters = TaskDef(
        name="check_hadoop",
        does="asks the HDFS clusters of the warehouses whether they answer",
        every_seconds=60,
        activate=services.hadoop.activate,
        on_every_server=True,
    )
    if services.tickets is None:
        return [clusters]
    return [
        clusters,
        TaskDef(
            name="renew_ticket",
            does="renews the Kerberos ticket when half its lifetime has passed",
            every_seconds=60,
            activate=services.tickets.activate,
            on_every_server=True,
        ),
    ]
