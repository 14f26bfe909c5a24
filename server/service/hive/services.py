"""The services beside Hive, gathered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from server.service.hive.conversion import Conversions
from server.service.hive.downgrade import Downgrades
from server.service.hive.freshness import Freshness
from server.service.hive.notification_listener import NotificationListener
from server.service.hive.operations import Operations
from server.service.hive.publish import Publishes
from server.service.hive.publish_commit import PublishedFiles
from server.service.hive.publish_requests import PublishRequests
from server.service.hive.publisher import PublisherMarks
from server.service.hive.sync import Syncs
from server.service.hive.sync_planner import SyncPlanner
from server.service.hive.table_index import HiveIndex
from server.service.hive.upgrade import Upgrades
from server.service.hive.upgrade_check import Checks
from server.service.hive.views import HiveViews


@dataclass(slots=True, kw_only=True)
class HiveServices:
    """The services for routes. `poke` and similar functions start pending work at once."""

    index: HiveIndex
    checks: Checks
    operations: Operations
    upgrades: Upgrades
    sync_planner: SyncPlanner
    syncs: Syncs
    notification_listener: NotificationListener
    publish_requests: PublishRequests
    publishes: Publishes
    freshness: Freshness
    published: PublishedFiles
    downgrades: Downgrades
    conversions: Conversions
    views: HiveViews
    marks: PublisherMarks
    poke: Callable[[], None] = field(default=lambda: None)
    poke_publishes: Callable[[], None] = field(default=lambda: None)
    poke_downgrades: Callable[[], None] = field(default=lambda: None)
