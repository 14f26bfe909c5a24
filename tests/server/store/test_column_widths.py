"""Each enumeration fits the columns that hold it. SQLite takes longer values, PostgreSQL refuses them."""

from enum import StrEnum

import pytest
from sqlalchemy import String

from catalog.access.audit_log import Verdict
from catalog.access.privileges import PrincipalKind, Privilege
from catalog.access.tokens import TokenKind
from catalog.history.metrics import ReportKind
from catalog.hive.events import HiveEventKind
from catalog.keyed.image_build import BuildState
from catalog.keyed.spec import KeyScope
from catalog.launch.fleet import LaunchStatus
from catalog.launch.settings import LaunchKind
from catalog.search.document import DocumentKind
from catalog.tables.relation import RelationKind
from firn.protocol.backfills import BackfillStatus
from firn.protocol.dropped import DroppedKind, DroppedState
from firn.protocol.imports import EntryKind, EntryState
from firn.protocol.jobs import JobKind, JobStatus
from firn.protocol.lineage import NodeKind
from firn.protocol.notifications import NotificationState, ProblemKind
from firn.protocol.operations import OperationKind, OperationStatus
from firn.protocol.orphans import BatchState
from firn.protocol.queries import QueryState
from firn.protocol.streams import StreamKind, StreamStatus
from server.store.rows import Row

STORED: dict[str, type[StrEnum]] = {
    "audit.verdict": Verdict,
    "dropped.kind": DroppedKind,
    "dropped.state": DroppedState,
    "image_build.state": BuildState,
    "import_entry.kind": EntryKind,
    "import_entry.state": EntryState,
    "role_grant.privilege": Privilege,
    "hive_event.kind": HiveEventKind,
    "job.kind": JobKind,
    "job.status": JobStatus,
    "keyed_table.scope": KeyScope,
    "launch.kind": LaunchKind,
    "launch.status": LaunchStatus,
    "lineage_definition.kind": NodeKind,
    "lineage_node.kind": NodeKind,
    "metrics_report.kind": ReportKind,
    "hive_wave.kind": OperationKind,
    "notification.kind": ProblemKind,
    "notification.state": NotificationState,
    "operation.kind": OperationKind,
    "operation.status": OperationStatus,
    "orphan_batch.state": BatchState,
    "pipeline_backfill.status": BackfillStatus,
    "principal.kind": PrincipalKind,
    "query.state": QueryState,
    "relation.kind": RelationKind,
    "search_document.kind": DocumentKind,
    "stream.kind": StreamKind,
    "stream.status": StreamStatus,
    "table_status.kind": JobKind,
    "token.kind": TokenKind,
}
NAMES = {"kind", "status", "state", "verdict", "privilege", "scope"}


def test_every_column_of_an_enumeration_is_listed() -> None:
    texts = {
        f"{table.name}.{column.name}"
        for table in Row.metadata.tables.values()
        for column in table.columns
        if column.name in NAMES and isinstance(column.type, String)
    }
    assert texts == set(STORED)


@pytest.mark.parametrize("column", sorted(STORED))
def test_every_value_fits(column: str) -> None:
    table, name = column.split(".")
    kind = Row.metadata.tables[table].columns[name].type
    assert isinstance(kind, String)
    assert kind.length is not None
    assert max(len(value) for value in STORED[column]) <= kind.length
