"""The database, seen by the services: one collection per noun, gathered in a unit of work.

Every method raises Unavailable when the database does not answer. Methods named `add` raise AlreadyExists when the
name or id is taken; `get` raises the noun's own NotFound; `find` returns None instead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from catalog.history.commit import CommitEvent
from catalog.history.metrics import MetricsReport, ReportKind
from catalog.jobs.blocker import Blocker, BlockerId
from catalog.jobs.operation import BatchId, Operation, OperationId, OperationKind, Tally
from catalog.jobs.optimizer import Optimizer
from catalog.keyed.spec import KeyedTable, Version
from catalog.names import CatalogName, Namespace, RelationId, TableName
from catalog.ports.access import Audit, Principals, Roles, Tokens
from catalog.ports.dropped import DroppedRelations
from catalog.ports.hive import Baselines, HiveTables
from catalog.ports.idempotency import IdempotencyKeys
from catalog.ports.imports import ImportEntries
from catalog.ports.launch import Launches
from catalog.ports.orphans import OrphanBatches
from catalog.ports.page import Page
from catalog.ports.work import FileLayouts, Groups, Jobs, Queue, TableStatuses
from catalog.scan.plan import PlanId, ScanPlan
from catalog.tables.relation import (
    Catalog,
    ListedRelation,
    LocatedRelation,
    Pointer,
    Relation,
    RelationKind,
    TableStats,
)
from catalog.tables.table_status import PlanRequest, PlanResult
from firn.protocol.history import Topic

Scope = tuple[CatalogName, Namespace]
"""What policies are set for: a namespace, or with () the whole catalog."""


class Catalogs(Protocol):
    """The catalogs of this server."""

    def add(self, catalog: Catalog) -> None: ...
    def get(self, name: CatalogName) -> Catalog: ...
    def list(self) -> Sequence[Catalog]: ...
    def change_properties(
        self, name: CatalogName, *, updates: Mapping[str, str], removals: Collection[str]
    ) -> Catalog: ...
    def note_metastore_down(self, name: CatalogName, reason: str | None, now: datetime) -> None:
        """Keep since when its metastore does not answer, and why; None when it does."""

    def hold(self, name: CatalogName) -> None:
        """Keep it, and keep any purge from beginning, until this transaction ends; NoSuchCatalog when it is gone."""

    def hold_all(self) -> None:
        """Until this transaction ends nobody adds a relation: what is seen of places from here on stays true."""

    def remove(self, name: CatalogName) -> None: ...


class Namespaces(Protocol):
    """Namespaces and their properties."""

    def add(self, catalog: CatalogName, namespace: Namespace, properties: Mapping[str, str]) -> None: ...
    def exists(self, catalog: CatalogName, namespace: Namespace) -> bool:
        """Whether it was created; a writer keeps it from being removed until its transaction ends."""

    def holder(self, catalog: CatalogName, namespace: Namespace) -> Namespace | None:
        """What keeps a second one from having this name: see Catalog.unique."""

    def properties(self, catalog: CatalogName, namespace: Namespace) -> dict[str, str]: ...
    def lock_properties(self, catalog: CatalogName, namespace: Namespace) -> dict[str, str]:
        """The same, kept from changing until this transaction ends."""

    def set_properties(self, catalog: CatalogName, namespace: Namespace, properties: Mapping[str, str]) -> None: ...

    def children(
        self, catalog: CatalogName, parent: Namespace, *, limit: int, cursor: str | None = None
    ) -> Page[Namespace]:
        """The namespaces directly under `parent` (() = the top), by name."""

    def below(self, catalog: CatalogName, namespace: Namespace) -> Sequence[Namespace]:
        """The namespace and all below it, parents first."""

    def remove(self, catalog: CatalogName, namespace: Namespace) -> None:
        """NamespaceNotEmpty while it holds namespaces or relations."""


class Relations(Protocol):
    """Tables, views and keyed tables."""

    def add(self, relation: Relation) -> None: ...
    def get(self, relation_id: RelationId) -> Relation: ...
    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, Relation]: ...
    def held(self, relation_ids: Collection[RelationId]) -> Collection[RelationId]:
        """Those of them that are there, which they then are until this transaction ends.

        One that somebody is removing or renaming at this moment is not waited for and not among them.
        """

    def find(self, catalog: CatalogName, name: TableName) -> Relation | None: ...
    def holder(self, catalog: CatalogName, name: TableName) -> Relation | None:
        """What keeps a second one from having this name: see Catalog.unique. Not for lookups, which are exact."""

    def stores_of(self, owner_id: RelationId) -> Sequence[Relation]: ...

    def list(
        self,
        catalog: CatalogName,
        namespace: Namespace | None,
        kinds: Collection[RelationKind],
        *,
        limit: int,
        cursor: str | None = None,
        search: str | None = None,
    ) -> Page[Relation]:
        """By namespace and name; `namespace` None means all; `search` is part of a name."""

    def below(self, catalog: CatalogName, namespace: Namespace, *, limit: int) -> Sequence[Relation]:
        """Tables, views and keyed tables in a namespace and in all namespaces below it, by name; no stores."""

    def names(
        self,
        catalog: CatalogName,
        namespace: Namespace,
        kinds: Collection[RelationKind],
        *,
        limit: int,
        cursor: str | None = None,
    ) -> Page[ListedRelation]:
        """What is in a namespace, by name: the list that engines ask for, and therefore fast."""

    def linked_to_hive(self, catalog: CatalogName) -> Sequence[Relation]:
        """Relations that were upgraded from Hive tables and are still linked to them."""

    def of_hives(self, catalog: CatalogName, hive_names: Collection[str]) -> Mapping[str, Relation]:
        """What some of these Hive tables were upgraded to."""

    def of_hive(self, catalog: CatalogName, hive_name: str) -> Relation | None:
        """What a Hive table, named `database.table`, was upgraded to, whatever its name is by now."""

    def over(self, locations: Collection[str]) -> Sequence[Relation]:
        """Relations over one of these locations, of all catalogs."""

    def move_pointer(self, relation: Relation, to: Pointer, now: datetime) -> bool:
        """Compare-and-set: point at new metadata if the version is still the relation's; False when it is not."""

    def rename(self, relation: Relation, to: TableName) -> None:
        """AlreadyExists when the new name is taken, NoSuchTable when it was dropped meanwhile."""


class Stats(Protocol):
    """Counters per table, kept by commits."""

    def get(self, relation_id: RelationId) -> TableStats: ...
    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, TableStats]: ...
    def put(self, stats: TableStats, *, plan_after: datetime) -> None:
        """Insert or replace; from `plan_after` on the planner looks at the table."""

    def look_again(self, relation_ids: Collection[RelationId], at: datetime) -> None:
        """Let the planner look at these tables, plain or keyed, at `at` or before."""

    def look_again_below(self, catalog: CatalogName, namespace: Namespace, at: datetime) -> None:
        """The same for all tables of a namespace and of those below it; () is the whole catalog."""

    def plan_unassessed(self, at: datetime) -> None:
        """The same for all tables that nobody has looked at yet."""

    def due(self, until: datetime, *, limit: int) -> Sequence[RelationId]:
        """Tables and stores that are to be looked at by then, longest due first."""

    def looks(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, PlanRequest]:
        """What was asked for so far of these tables and stores."""

    def looked(self, done: Collection[PlanResult], now: datetime) -> None:
        """Note that these were looked at. What was asked for meanwhile stays due."""


class KeyedTables(Protocol):
    """Keyed tables' stores, watermarks and pending counts."""

    def add(self, keyed: KeyedTable) -> None: ...
    def get(self, relation_id: RelationId) -> KeyedTable: ...
    def get_many(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, KeyedTable]: ...
    def lock(self, relation_id: RelationId) -> KeyedTable:
        """Its current row, kept from changing until this transaction ends."""

    def put(self, keyed: KeyedTable) -> None: ...
    def remove(self, relation_id: RelationId) -> None: ...
    def add_version(self, version: Version) -> None: ...
    def versions(self, relation_id: RelationId, *, limit: int, before: int | None = None) -> Sequence[Version]: ...

    def forget_versions(self, relation_id: RelationId, *, base: Collection[int], change: Collection[int]) -> None:
        """Drop the versions that name one of these snapshots of base or change."""


class Events(Protocol):
    """The history of commits."""

    def add(self, event: CommitEvent) -> None:
        """DuplicateBatch when the same writer's batch is on this relation already."""

    def find_batch(self, relation_id: RelationId, writer_id: str, batch_id: str) -> CommitEvent | None: ...

    def pending(self, change_id: RelationId, *, above: int) -> tuple[int, int, int, datetime | None]:
        """Rows, bytes, commits and the oldest time of appends to a change store above a sequence number."""

    def pending_of_writers(self, change_id: RelationId, *, above: int) -> tuple[int, int, int, datetime | None]:
        """The same, without what sync jobs appended: Hive has that."""

    def newest_before(self, relation_id: RelationId, moment: datetime) -> int:
        """The highest sequence number that a commit before that moment was given; 0 for none."""

    def of_snapshots(self, relation_id: RelationId, snapshot_ids: Collection[int]) -> Mapping[int, CommitEvent]: ...

    def list(
        self,
        catalog: CatalogName | None,
        relation_ids: Collection[RelationId] | None,
        *,
        limit: int,
        cursor: str | None = None,
        topics: Collection[Topic] = (),
    ) -> Page[CommitEvent]:
        """Newest first; None means all, and no topics mean every one."""

    def find(self, event_id: int) -> CommitEvent | None: ...

    def between(
        self, relation_id: RelationId, after: int, until: int, topics: Collection[Topic], *, limit: int
    ) -> Sequence[CommitEvent]:
        """Commits on one of these topics, numbered above `after` and up to `until`, oldest first."""

    def forget_batches(self, relation_id: RelationId, snapshot_ids: Collection[int]) -> None:
        """These snapshots are not in the table's history any more: what they brought may be sent again."""

    def recall_batches(self, relation_id: RelationId, snapshot_ids: Collection[int]) -> None:
        """These snapshots are in it again: what they brought is refused, unless another commit has brought it since."""

    def last_id(self) -> int: ...


class Blockers(Protocol):
    """What keeps jobs from tables for a while."""

    def add(self, blocker: Blocker) -> None: ...
    def of(self, relation_ids: Collection[RelationId], now: datetime) -> Mapping[RelationId, Sequence[Blocker]]:
        """Those that have not ended, by table and in the order in which they were set."""

    def remove(self, relation_id: RelationId, blocker_id: BlockerId | None = None) -> int:
        """This one of a table, or all of them; how many there were."""

    def remove_before(self, moment: datetime) -> int:
        """Forget those that ended before; how many."""


class Optimizers(Protocol):
    """Registered optimizers."""

    def put(self, optimizer: Optimizer) -> None: ...
    def find(self, optimizer_id: str) -> Optimizer | None: ...

    def saw(self, optimizer_id: str, now: datetime, memory: Mapping[str, int]) -> Optimizer | None:
        """Note that it was heard, and its memory if it told; nothing else of it changes. None: not registered."""

    def ask(self, optimizer_id: str, *, draining: bool, stopping: bool, reason: str | None) -> Optimizer | None:
        """Note what it is asked to do; nothing else of it changes. None: not registered."""

    def list(self) -> Sequence[Optimizer]: ...
    def remove(self, optimizer_id: str) -> None: ...


class Operations(Protocol):
    """Long work asked for by people: upgrades and the like, with their journals."""

    def add(self, operation: Operation) -> None: ...
    def get(self, operation_id: OperationId) -> Operation: ...
    def lock(self, operation_id: OperationId) -> Operation:
        """As nobody else can change it before the transaction ends."""

    def put(self, operation: Operation) -> None: ...
    def unfinished(self) -> Sequence[Operation]:
        """Those that run, ran when their server died, or are paused; oldest first."""

    def working_on(self, catalog: CatalogName, targets: Collection[str]) -> Mapping[str, Operation]:
        """Unfinished upgrades and downgrades of these tables."""

    def next(
        self, kinds: Collection[OperationKind], *, but_for: Collection[OperationId], limit: int
    ) -> Sequence[Operation]:
        """Those to carry out: what is to be canceled, then what was asked for alone, then batches; oldest first."""

    def list(
        self,
        *,
        catalog: CatalogName | None = None,
        batch: BatchId | None = None,
        target: str | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> Page[Operation]:
        """Newest first; those of a batch as they come."""

    def add_all(self, operations: Collection[Operation]) -> None: ...
    def tally(self, batch: BatchId) -> Tally:
        """NotFound when there is no such batch."""

    def targets(self, batch: BatchId) -> Collection[tuple[CatalogName, str]]:
        """What the operations of a batch work on."""

    def pause_all(self, batch: BatchId, now: datetime) -> int:
        """See catalog.jobs.operation.paused; those that cannot be are left as they are. How many were."""

    def resume_all(self, batch: BatchId, now: datetime) -> int:
        """See catalog.jobs.operation.resumed."""

    def cancel_all(self, batch: BatchId, now: datetime) -> int:
        """See catalog.jobs.operation.to_cancel."""

    def forget_checks(self, before: datetime) -> int:
        """Forget checks that ended before; how many."""


class Policies(Protocol):
    """Properties set for a whole catalog or namespace; tables inherit them."""

    def get(self, catalog: CatalogName, namespace: Namespace) -> dict[str, str]:
        """Those of one scope; namespace () is the catalog."""

    def get_many(self, scopes: Collection[Scope]) -> Mapping[Scope, dict[str, str]]:
        """Those of all scopes that have some, in one query."""

    def put(self, catalog: CatalogName, namespace: Namespace, properties: Mapping[str, str]) -> None: ...


class Metrics(Protocol):
    """What engines report of scans and commits."""

    def add(self, reports: Sequence[MetricsReport]) -> None: ...

    def list(
        self, relation_ids: Collection[RelationId], kind: ReportKind | None, *, limit: int, cursor: str | None = None
    ) -> Page[MetricsReport]:
        """Newest first; None means both kinds."""

    def remove_before(self, moment: datetime) -> int: ...


class Leaders(Protocol):
    """Which server does the background work."""

    def claim(self, holder: str, *, now: datetime, until: datetime) -> int | None:
        """Take or renew the leadership: its term; None while another server's claim has not lapsed."""

    def holds(self, holder: str, term: int) -> bool:
        """Whether this term of the holder is still the current one, which it then is until the transaction ends."""


class Plans(Protocol):
    """Plans of scans whose tasks clients fetch."""

    def add(self, plan: ScanPlan) -> None: ...
    def find(self, plan_id: PlanId) -> ScanPlan | None:
        """Also one that has expired or is cancelled."""

    def cancel(self, plan_id: PlanId) -> None: ...
    def remove_expired(self, now: datetime) -> int:
        """Forget them; how many."""


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
