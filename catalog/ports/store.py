"""The port to the database: one collection per noun, gathered in a unit of work.

Every method raises Unavailable if the database does not answer. Methods named `add` raise AlreadyExists if the name or
id is taken. `get` raises the noun's own NotFound; `find` returns None instead.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from catalog.names import CatalogName, TableName
from catalog.ports.access import Audit, Principals, Roles, Tokens
from catalog.ports.background import Leaders
from catalog.ports.catalogs import Catalogs, Namespaces, Policies
from catalog.ports.consumers import Consumers
from catalog.ports.dropped import DroppedRelations
from catalog.ports.held_runs import HeldRuns
from catalog.ports.history import Events, Metrics
from catalog.ports.hive import Baselines, HiveTables, HiveWaves
from catalog.ports.idempotency import IdempotencyKeys
from catalog.ports.images import ImageBuilds
from catalog.ports.imports import ImportEntries
from catalog.ports.kafka import Connections
from catalog.ports.launch import Launches
from catalog.ports.lineage import Lineage
from catalog.ports.notifications import EventMessages, NotificationRules, Notifications, ProblemFacts
from catalog.ports.operations import Operations
from catalog.ports.optimizers import Blockers, Optimizers
from catalog.ports.orphans import OrphanBatches
from catalog.ports.pipelines import Backfills, Checkpoints, PipelineFacts, Pipelines
from catalog.ports.queries import Queries, SavedQueries
from catalog.ports.relations import KeyedTables, Relations, Stats
from catalog.ports.scan import Plans
from catalog.ports.search import SearchedObjects, SearchIndex
from catalog.ports.streams import Streams
from catalog.ports.trends import Trends
from catalog.ports.work import FileLayouts, Groups, Jobs, Queue, TableStatuses
from catalog.ports.writers import Writers
from catalog.tables.relation import (
    LocatedRelation,
)


class UnitOfWork(Protocol):
    """One transaction. Its context manager ends it; leaving the block normally commits."""

    catalogs: Catalogs
    namespaces: Namespaces
    relations: Relations
    stats: Stats
    table_statuses: TableStatuses
    trends: Trends
    layouts: FileLayouts
    keyed: KeyedTables
    events: Events
    search_index: SearchIndex
    searched_objects: SearchedObjects
    lineage: Lineage
    writers: Writers
    streams: Streams
    connections: Connections
    consumers: Consumers
    pipelines: Pipelines
    checkpoints: Checkpoints
    held_runs: HeldRuns
    pipeline_facts: PipelineFacts
    backfills: Backfills
    jobs: Jobs
    blockers: Blockers
    queue: Queue
    optimizers: Optimizers
    groups: Groups
    launches: Launches
    operations: Operations
    imports: ImportEntries
    policies: Policies
    idempotency_keys: IdempotencyKeys
    leaders: Leaders
    metrics: Metrics
    plans: Plans
    queries: Queries
    saved_queries: SavedQueries
    notification_rules: NotificationRules
    notifications: Notifications
    event_messages: EventMessages
    problem_facts: ProblemFacts
    images: ImageBuilds
    hive: HiveTables
    waves: HiveWaves
    baselines: Baselines
    dropped: DroppedRelations
    orphans: OrphanBatches
    principals: Principals
    roles: Roles
    tokens: Tokens
    audit: Audit

    def now(self) -> datetime:
        """The database's clock, in UTC. Leases are measured by it."""


class Database(Protocol):
    """Opens units of work."""

    def reading(self) -> AbstractContextManager[UnitOfWork]:
        """A consistent snapshot to read from."""

    def locate(self, catalog: CatalogName, name: TableName) -> LocatedRelation | None:
        """The relation of this name now. Each load calls this, so it is fast."""

    def lock_commits(self, tables: Collection[str]) -> AbstractContextManager[None]:
        """A turn, among all servers, at tables that several of them commit to.

        It only reduces conflicts and protects nothing: after a time limit the block runs without its turn.
        """

    def truncate_log(self) -> bool:
        """Remove deleted rows from the database's log; False while a reader prevents it.

        Only SQLite's log lies beside the database and is cut; PostgreSQL maintains its own.
        """

    def writing(self) -> AbstractContextManager[UnitOfWork]:
        """A transaction that commits when the block ends.

        An exception in the block rolls back and passes on: nothing was changed. If the commit itself fails, it raises
        CommitUnknown when the commit may have reached the disk, and Unavailable when it certainly has not.
        """
