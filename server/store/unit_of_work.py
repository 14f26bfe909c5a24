"""The collections of one transaction, and the database that opens transactions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime

from sqlalchemy import func, select

from catalog.names import CatalogName, TableName
from catalog.ports import (
    access,
    background,
    catalogs,
    consumers,
    dropped,
    held_runs,
    history,
    hive,
    idempotency,
    images,
    imports,
    kafka,
    launch,
    lineage,
    notifications,
    operations,
    optimizers,
    orphans,
    pipelines,
    queries,
    relations,
    scan,
    search,
    store,
    streams,
    trends,
    work,
    writers,
)
from catalog.tables.relation import LocatedRelation
from server.store.access import SqlPrincipals, SqlRoles, SqlTokens
from server.store.audit_log import SqlAudit
from server.store.backfills import SqlBackfills
from server.store.blockers import SqlBlockers
from server.store.catalogs import SqlCatalogs, SqlNamespaces
from server.store.checkpoints import SqlCheckpoints
from server.store.commit_lock import create_commit_lock
from server.store.connections import SqlConnections
from server.store.consumers import SqlConsumers
from server.store.dropped import SqlDropped
from server.store.event_messages import SqlEventMessages
from server.store.events import SqlEvents
from server.store.fast_queries import FastQueries
from server.store.file_layouts import SqlFileLayouts
from server.store.groups import SqlGroups
from server.store.held_runs import SqlHeldRuns
from server.store.hive import SqlBaselines
from server.store.hive_tables import SqlHiveTables
from server.store.hive_waves import SqlHiveWaves
from server.store.idempotency_keys import SqlIdempotencyKeys
from server.store.images import SqlImageBuilds
from server.store.imports import SqlImportEntries
from server.store.jobs import SqlJobs
from server.store.launches import SqlLaunches
from server.store.leaders import SqlLeaders
from server.store.lineage import SqlLineage
from server.store.metrics import SqlMetrics
from server.store.notification_rules import SqlNotificationRules
from server.store.notifications import SqlNotifications
from server.store.operations import SqlOperations
from server.store.optimizers import SqlOptimizers
from server.store.orphans import SqlOrphanBatches
from server.store.pipeline_facts import SqlPipelineFacts
from server.store.pipelines import SqlPipelines
from server.store.plans import SqlPlans
from server.store.policies import SqlPolicies
from server.store.prepared_statements import PreparedStatement
from server.store.problem_facts import SqlProblemFacts
from server.store.queries import SqlQueries, SqlSavedQueries
from server.store.queue import SqlQueue
from server.store.relations import SqlKeyedTables, SqlRelations
from server.store.rows import UtcDateTime
from server.store.search import SqlSearchIndex
from server.store.searched_objects import SqlSearchedObjects
from server.store.session import ReadSession, Sessions, translate_errors
from server.store.stats import SqlStats
from server.store.streams import SqlStreams
from server.store.table_status import SqlTableStatuses
from server.store.trends import SqlTrends
from server.store.writers import SqlWriters

_NOW = PreparedStatement(select(func.clock_timestamp(type_=UtcDateTime)))


class SqlUnitOfWork:
    """See catalog.ports.store.UnitOfWork."""

    def __init__(self, session: ReadSession) -> None:
        self.session = session
        self._open_tables(session)
        self._open_streams_and_pipelines(session)
        self._open_work(session)
        self._open_access(session)

    def _open_tables(self, session: ReadSession) -> None:
        self.catalogs: catalogs.Catalogs = SqlCatalogs(session)
        self.namespaces: catalogs.Namespaces = SqlNamespaces(session)
        self.policies: catalogs.Policies = SqlPolicies(session)
        self.relations: relations.Relations = SqlRelations(session)
        self.keyed: relations.KeyedTables = SqlKeyedTables(session)
        self.stats: relations.Stats = SqlStats(session)
        self.layouts: work.FileLayouts = SqlFileLayouts(session)
        self.events: history.Events = SqlEvents(session)
        self.metrics: history.Metrics = SqlMetrics(session)
        self.plans: scan.Plans = SqlPlans(session)
        self.images: images.ImageBuilds = SqlImageBuilds(session)
        self.hive: hive.HiveTables = SqlHiveTables(session)
        self.waves: hive.HiveWaves = SqlHiveWaves(session)
        self.baselines: hive.Baselines = SqlBaselines(session)
        self.dropped: dropped.DroppedRelations = SqlDropped(session)
        self.orphans: orphans.OrphanBatches = SqlOrphanBatches(session)
        self.search_index: search.SearchIndex = SqlSearchIndex(session)
        self.lineage: lineage.Lineage = SqlLineage(session)
        self.searched_objects: search.SearchedObjects = SqlSearchedObjects(session)

    def _open_streams_and_pipelines(self, session: ReadSession) -> None:
        self.writers: writers.Writers = SqlWriters(session)
        self.streams: streams.Streams = SqlStreams(session)
        self.connections: kafka.Connections = SqlConnections(session)
        self.consumers: consumers.Consumers = SqlConsumers(session)
        self.pipelines: pipelines.Pipelines = SqlPipelines(session)
        self.checkpoints: pipelines.Checkpoints = SqlCheckpoints(session)
        self.held_runs: held_runs.HeldRuns = SqlHeldRuns(session)
        self.pipeline_facts: pipelines.PipelineFacts = SqlPipelineFacts(session)
        self.backfills: pipelines.Backfills = SqlBackfills(session)

    def _open_work(self, session: ReadSession) -> None:
        self.table_statuses: work.TableStatuses = SqlTableStatuses(session)
        self.trends: trends.Trends = SqlTrends(session)
        self.jobs: work.Jobs = SqlJobs(session)
        self.blockers: optimizers.Blockers = SqlBlockers(session)
        self.queue: work.Queue = SqlQueue(session)
        self.optimizers: optimizers.Optimizers = SqlOptimizers(session)
        self.launches: launch.Launches = SqlLaunches(session)
        self.groups: work.Groups = SqlGroups(session)
        self.operations: operations.Operations = SqlOperations(session)
        self.imports: imports.ImportEntries = SqlImportEntries(session)
        self.idempotency_keys: idempotency.IdempotencyKeys = SqlIdempotencyKeys(session)
        self.leaders: background.Leaders = SqlLeaders(session)
        self.queries: queries.Queries = SqlQueries(session)
        self.saved_queries: queries.SavedQueries = SqlSavedQueries(session)
        self.notification_rules: notifications.NotificationRules = SqlNotificationRules(session)
        self.notifications: notifications.Notifications = SqlNotifications(session)
        self.event_messages: notifications.EventMessages = SqlEventMessages(session)
        self.problem_facts: notifications.ProblemFacts = SqlProblemFacts(session)

    def _open_access(self, session: ReadSession) -> None:
        self.principals: access.Principals = SqlPrincipals(session)
        self.roles: access.Roles = SqlRoles(session)
        self.tokens: access.Tokens = SqlTokens(session)
        self.audit: access.Audit = SqlAudit(session)

    def now(self) -> datetime:
        """Get the database's time in UTC; for SQLite the machine's, since all its servers run here."""
        if self.session.get_bind().dialect.name == "sqlite":
            return datetime.now(UTC)
        ((now,),) = _NOW.all(self.session, {})
        assert isinstance(now, datetime)
        return now


class SqlDatabase:
    """See catalog.ports.store.Database."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._fast_queries = FastQueries(sessions.engine)
        self._commit_lock = create_commit_lock(sessions.engine)

    @contextmanager
    def reading(self) -> Iterator[store.UnitOfWork]:
        """Open a consistent snapshot for reading."""
        with self._sessions.reading() as session:
            yield SqlUnitOfWork(session)

    def locate(self, catalog: CatalogName, name: TableName) -> LocatedRelation | None:
        """Find the current kind and metadata location of a name."""
        with translate_errors():
            return self._fast_queries.locate(catalog, name)

    def lock_commits(self, tables: Collection[str]) -> AbstractContextManager[None]:
        """Lock tables against commits of other servers."""
        return self._commit_lock.of(tables)

    def truncate_log(self) -> bool:
        """Truncate SQLite's write-ahead log."""
        return self._sessions.truncate_log()

    @contextmanager
    def writing(self) -> Iterator[store.UnitOfWork]:
        """Open a transaction that commits when the block ends."""
        with self._sessions.writing() as session:
            yield SqlUnitOfWork(session)
