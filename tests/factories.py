"""Domain values for tests. They are valid, unless a test passes other fields."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from catalog.history.commit import CommitEvent
from catalog.jobs.job import Job, JobId, JobKind, JobStatus, LeaseToken, OptimizerId
from catalog.jobs.leases import Lease
from catalog.jobs.operation import Operation, OperationId
from catalog.jobs.optimizer import Optimizer
from catalog.keyed.spec import KeyedTable, KeySpec
from catalog.names import CatalogName, RelationId, TableName
from catalog.queries.query import QueriedTable, Query, create_query_id
from catalog.tables.relation import Catalog, Relation, RelationKind
from firn.protocol.operations import OperationKind, OperationStatus
from firn.protocol.queries import QueryState

LAKE = CatalogName("lake")
NOW = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)
ORDERS = TableName(("db",), "orders")
LATER = NOW + timedelta(minutes=5)


def a_catalog(**changes: Any) -> Catalog:
    catalog = Catalog(name=LAKE, warehouse="file:/warehouse", metastore_uri=None, properties={}, created_at=NOW)
    return replace(catalog, **changes)


def a_relation(**changes: Any) -> Relation:
    relation = Relation(
        id=RelationId(uuid4()),
        catalog=LAKE,
        name=ORDERS,
        kind=RelationKind.TABLE,
        owner_id=None,
        location="file:/warehouse/db/orders",
        metadata_location="file:/warehouse/db/orders/metadata/00000-a.metadata.json",
        version=0,
        created_at=NOW,
        updated_at=NOW,
    )
    return replace(relation, **changes)


def a_keyed_table(**changes: Any) -> KeyedTable:
    ids = [RelationId(uuid4()) for _ in range(3)]
    keyed_table = KeyedTable(relation_id=ids[0], spec=KeySpec(primary_key=("id",)), base_id=ids[1], change_id=ids[2])
    return replace(keyed_table, **changes)


def a_job(status: JobStatus = JobStatus.PENDING, **changes: Any) -> Job:
    """A job. If the status has a lease, the job has attempt 1, the token `t1` and five minutes left."""
    job = Job(
        id=JobId(uuid4()),
        catalog=LAKE,
        subject_id=uuid4(),
        table=ORDERS,
        kind=JobKind.MERGE,
        status=status,
        group="default",
        reason="20 commits pending (limit 20)",
        created_at=NOW,
        deadline=NOW,
    )
    if status.is_leased:
        owner, token = OptimizerId("host-1-abc"), LeaseToken("t1")
        job = replace(job, attempt=1, token=token, owner=owner, leased_at=NOW, lease_until=LATER)
    return replace(job, **changes)


def lease_of(job: Job) -> Lease:
    """The job's current lease."""
    assert job.token is not None
    return Lease(job.id, job.attempt, job.token)


def an_event(**changes: Any) -> CommitEvent:
    event = CommitEvent(
        relation_id=RelationId(uuid4()), catalog=LAKE, table=ORDERS, committed_at=NOW, operation="append"
    )
    return replace(event, **changes)


def an_optimizer(**changes: Any) -> Optimizer:
    optimizer = Optimizer(
        id=OptimizerId("host-1-abc"),
        group="default",
        host="host",
        pid=1,
        version="0.1.0",
        registered_at=NOW,
        last_seen_at=NOW,
    )
    return replace(optimizer, **changes)


def an_operation(**changes: Any) -> Operation:
    operation = Operation(
        id=OperationId(uuid4()),
        kind=OperationKind.UPGRADE,
        catalog=LAKE,
        target="db.orders",
        status=OperationStatus.RUNNING,
        created_at=NOW,
        updated_at=NOW,
    )
    return replace(operation, **changes)


def a_query(now: datetime, *tables: TableName, **changes: Any) -> Query:
    query = Query(
        id=create_query_id(),
        owner=None,
        statement="SELECT 1",
        catalog=LAKE,
        namespace="",
        explain=False,
        tables=tuple(QueriedTable(LAKE, table) for table in tables),
        state=QueryState.QUEUED,
        created_at=now,
        seen_at=now,
    )
    return replace(query, **changes)
