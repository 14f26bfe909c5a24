"""The database, seen by the services: one collection per noun, gathered in a unit of work.

Every method raises Unavailable when the database does not answer. Methods named `add` raise AlreadyExists when the
name or id is taken; `get` raises the noun's own NotFound; `find` returns None instead.
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
from catalog.ports.dropped import DroppedRelations
from catalog.ports.history import Events, Metrics
from catalog.ports.hive import Baselines, HiveTables
from catalog.ports.idempotency import IdempotencyKeys
from catalog.ports.imports import ImportEntries
from catalog.ports.launch import Launches
from catalog.ports.operations import Operations
from catalog.ports.optimizers import Blockers, Optimizers
from catalog.ports.orphans import OrphanBatches
from catalog.ports.relations import KeyedTables, Relations, Stats
from catalog.ports.scan import Plans
from catalog.ports.work import FileLayouts, Groups, Jobs, Queue, TableStatuses
from catalog.tables.relation import (
    LocatedRelation,
)


class UnitOfWork(Protocol):
    """One transaction. Its end is its context manager's business: leaving normally commits."""

    catalogs: Catalogs
    namespaces: Namespaces
    relations: Relations
    stats: Stats
    table_statuses: TableStatuses
    layouts: FileLayouts
    keyed: KeyedTables
    events: Events
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
    hive: HiveTables
    baselines: Baselines
    dropped: DroppedRelations
    orphans: OrphanBatches
    principals: Principals
    roles: Roles
    tokens: Tokens
    audit: Audit

    def now(self) -> datetime:
        """The database's clock, in UTC: the one that leases are measured by."""


class Database(Protocol):
    """Where units of work come from."""

    def reading(self) -> AbstractContextManager[UnitOfWork]:
        """A consistent snapshot to read from."""

    def locate(self, catalog: CatalogName, name: TableName) -> LocatedRelation | None:
        """What the name stands for at this moment: the one thing that each load asks, and therefore fast."""

    def lock_commits(self, tables: Collection[str]) -> AbstractContextManager[None]:
        """A turn among all servers at tables that several of them are moving.

        A courtesy and no fence: who waits too long for it has it anyway.
        """

    def truncate_log(self) -> bool:
        """Cut off what the database's log still holds of rows that were deleted; False when somebody reads it just now.

        Only SQLite's log lies beside the database and is cut; PostgreSQL looks after its own.
        """

    def writing(self) -> AbstractContextManager[UnitOfWork]:
        """A transaction that commits when the block ends.

        An exception inside the block rolls back and is passed on: nothing was changed. When the commit itself fails in
        a way that may have reached the disk, CommitUnknown is raised; when it is known to have failed, Unavailable.
        """
