"""The composition root of the services beside Hive: syncs, publishes, upgrades and downgrades."""

from __future__ import annotations

import threading

from catalog.hive.key_suggestions import MOST_SAMPLED
from firn.protocol.tasks.query import QueryLimits
from server.adapters import Adapters
from server.files.hdfs_check import HdfsFileSystems
from server.launch.query_engine import QueryProcess
from server.service.hive.conversion import Conversions
from server.service.hive.downgrade import Downgrades
from server.service.hive.downgrade_check import DowngradeCheck
from server.service.hive.freshness import Freshness
from server.service.hive.key_count import MOST_KEYS, KeyCounter
from server.service.hive.key_evidence import MOST_ROW_FILES, SAMPLE_SECONDS, RowSampler
from server.service.hive.notification_listener import NotificationListener
from server.service.hive.operations import Operations
from server.service.hive.publish import Publishes
from server.service.hive.publish_commit import PublishedFiles
from server.service.hive.publish_locations import WritersReach
from server.service.hive.publish_planner import PublishPlanner
from server.service.hive.publish_requests import PublishRequests
from server.service.hive.published_permissions import PublishedPermissions
from server.service.hive.publisher import PublisherMarks
from server.service.hive.repoint import Repointer
from server.service.hive.services import HiveServices
from server.service.hive.sync import Syncs
from server.service.hive.sync_planner import SyncPlanner
from server.service.hive.table_index import HiveIndex
from server.service.hive.upgrade import Upgrades
from server.service.hive.upgrade_check import Checks
from server.service.hive.views import HiveViews
from server.service.services import TableServices
from server.settings import Settings

_LONGEST_PASS_SECONDS = 3600.0
"""A pass over the keys of a large table takes longer than a query of people may."""


def _build_counter(settings: Settings) -> KeyCounter:
    queries = settings.queries
    limits = QueryLimits(
        rows=MOST_KEYS,
        result_bytes=queries.result_bytes,
        memory_bytes=queries.memory_bytes,
        threads=queries.threads,
        files=queries.files,
    )
    return KeyCounter(
        lambda: QueryProcess(_LONGEST_PASS_SECONDS), limits, dict(settings.file_io), enabled=queries.enabled
    )


def _build_row_sampler(settings: Settings) -> RowSampler:
    queries = settings.queries
    limits = QueryLimits(
        rows=MOST_SAMPLED + 1,
        result_bytes=queries.result_bytes,
        memory_bytes=queries.memory_bytes,
        threads=1,
        files=MOST_ROW_FILES,
    )
    return RowSampler(QueryProcess(SAMPLE_SECONDS), limits, dict(settings.file_io), enabled=queries.enabled)


def build_hive(adapters: Adapters, tables: TableServices, index: HiveIndex) -> HiveServices:
    """Build the services over one database and its metastores."""
    database, metadata, files = adapters.database, adapters.metadata, adapters.table_files
    reach = WritersReach(HdfsFileSystems(adapters.storage.deadlines))
    checks = Checks(database, index, files, reach, _build_row_sampler(adapters.settings))
    repointer = Repointer(database, index, files)
    upgrades = Upgrades(
        database,
        tables.namespaces,
        tables.tables,
        tables.keyed,
        index,
        checks,
        files,
        at_once=adapters.settings.hive.max_concurrent_upgrades,
        halted=threading.Event(),
        counter=_build_counter(adapters.settings),
    )
    sync_planner = SyncPlanner(database, metadata, tables.committer, index, files, repointer)
    syncs = Syncs(database, sync_planner)
    permissions = PublishedPermissions(adapters.permissions)
    planner = PublishPlanner(database, metadata, index, files, repointer, sync_planner.columns, permissions, reach)
    requests = PublishRequests(database, planner)
    downgrade_check = DowngradeCheck(database, metadata, index, files)
    return HiveServices(
        index=index,
        checks=checks,
        operations=Operations(database, checks, metadata.files),
        upgrades=upgrades,
        sync_planner=sync_planner,
        syncs=syncs,
        notification_listener=NotificationListener(database, index, syncs.hints),
        publish_requests=requests,
        publishes=Publishes(database, planner, requests),
        freshness=Freshness(database, metadata, index, files, permissions, reach),
        published=PublishedFiles(database, metadata, tables.committer, index, files, repointer, permissions),
        downgrades=Downgrades(database, metadata, downgrade_check, sync_planner, requests, repointer.owners),
        conversions=Conversions(database, metadata, tables.namespaces, tables.keyed, index, files),
        views=HiveViews(database, index, tables.namespaces, tables.views),
        marks=PublisherMarks(database, repointer.owners),
    )
