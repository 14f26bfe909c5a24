"""Table events: what rules report of commits and of ended jobs, as the data of CloudEvents.

The events are derived from rows that the server has anyway, so a commit or a job writes nothing for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import Any
from urllib.parse import quote
from uuid import uuid5

from catalog.history.change import ChangeKind
from catalog.history.commit import CommitEvent
from catalog.jobs.job import Job
from catalog.names import TableName
from catalog.notifications.message import Notification, NotificationId
from catalog.notifications.problem import LONGEST_MESSAGE, LONGEST_SUBJECT, LONGEST_TITLE, clean_line, clean_text
from catalog.notifications.rule import Rule
from catalog.tables.relation import Relation
from firn.protocol.names import join_name
from firn.protocol.notifications import ProblemKind

_LIFE = {
    "create": ProblemKind.TABLE_CREATED,
    "register": ProblemKind.TABLE_CREATED,
    "undrop": ProblemKind.TABLE_CREATED,
    "rename": ProblemKind.TABLE_RENAMED,
    "drop": ProblemKind.TABLE_DROPPED,
}
_PURGE = "purge"
_HIGHEST = 2**63
_LONGEST_FIGURE = 100
MOST_FIGURES = 40
"""Figures of a job's result in an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEvent:
    """One event of a table, before a rule reports it."""

    source: str
    """Names the event among all events: the rows that it is derived from."""
    kind: ProblemKind
    catalog: str
    table: TableName
    table_id: str
    at: datetime
    title: str
    message: str
    link: str
    data: Mapping[str, Any]


def describe_commit(event: CommitEvent, relation: Relation | None) -> TableEvent | None:
    """The event of a commit; None for the deletion of a dropped table's files, which changes no table.

    `relation` is the table now, None if it is gone. A store of a keyed table counts as its keyed table.
    """
    if event.operation == _PURGE:
        return None
    is_store = relation is not None and relation.kind.is_store
    table = TableName(event.table.namespace[:-1], event.table.namespace[-1]) if is_store else event.table
    owner = relation.owner_id if relation is not None and is_store else None
    data: dict[str, Any] = {
        "catalog": str(event.catalog),
        "namespace": join_name(table.namespace),
        "table": table.name,
        "table_id": str(owner or event.relation_id),
        "store": event.table.name if is_store else None,
        "event": event.id,
        "operation": event.operation,
        "snapshot_id": _text(event.snapshot_id),
        "parent_snapshot_id": _text(event.parent_id),
        "sequence_number": event.sequence_number,
        "schema_id": event.schema_id,
        "added_rows": event.added_rows,
        "added_bytes": event.added_bytes,
        "added_files": event.added_files,
        "removed_rows": event.removed_rows,
        "removed_files": event.removed_files,
        "principal": event.principal,
        "engine": event.engine,
        "job_id": event.job_id,
    }
    renamed = next((change.before for change in event.changes if change.kind is ChangeKind.RENAMED), None)
    if renamed is not None:
        data["renamed_from"] = renamed
    return TableEvent(
        source=f"commit:{event.id}",
        kind=_LIFE.get(event.operation, ProblemKind.TABLE_COMMITTED),
        catalog=str(event.catalog),
        table=table,
        table_id=data["table_id"],
        at=event.committed_at,
        title=f"{event.operation} of {table}",
        message=f"{event.added_rows:,} rows added, {event.removed_rows:,} removed",
        link=f"/c/{quote(str(event.catalog), safe='')}/tables/{quote(str(table), safe='')}",
        data=data,
    )


def describe_job(job: Job) -> TableEvent:
    """The event of an ended job."""
    at = job.ended_at or job.created_at
    data: dict[str, Any] = {
        "catalog": str(job.catalog),
        "namespace": join_name(job.table.namespace),
        "table": job.table.name,
        "table_id": str(job.subject_id),
        "job_id": str(job.id),
        "job_kind": str(job.kind),
        "status": str(job.status),
        "reason": clean_text(job.reason, LONGEST_MESSAGE),
        "error": None if job.error is None else clean_text(job.error, LONGEST_MESSAGE),
        "seconds": None if job.leased_at is None else round((at - job.leased_at).total_seconds(), 3),
        "snapshot_id": _text(job.committed_snapshot_id),
        "figures": _select_figures(job.result),
    }
    return TableEvent(
        source=f"job:{job.id}",
        kind=ProblemKind.JOB_ENDED,
        catalog=str(job.catalog),
        table=job.table,
        table_id=data["table_id"],
        at=at,
        title=f"{job.kind} of {job.table}: {job.status}",
        message=job.error or job.reason,
        link=f"/jobs/{job.id}",
        data=data,
    )


def build_notification(rule: Rule, event: TableEvent, now: datetime) -> Notification:
    """The message of a rule about an event. Its id depends on both alone, so the same event is one message."""
    return Notification(
        id=NotificationId(uuid5(rule.id, event.source)),
        rule=rule.name,
        kind=event.kind,
        catalog=event.catalog,
        subject=clean_line(str(event.table), LONGEST_SUBJECT),
        title=clean_line(event.title, LONGEST_TITLE),
        message=clean_text(event.message, LONGEST_MESSAGE),
        link=event.link,
        since=event.at,
        created_at=now,
        ended_at=now,
        next_attempt_at=now,
        data=event.data,
    )


def _select_figures(result: Mapping[str, Any]) -> dict[str, int | float]:
    """The numbers of an optimizer's report, which may hold anything; no JSON has a number that is not finite."""
    figures = {
        clean_line(key, _LONGEST_FIGURE): value
        for key, value in result.items()
        if isinstance(value, int | float) and abs(value) < _HIGHEST and isfinite(value)
    }
    return dict(list(figures.items())[:MOST_FIGURES])


def _text(snapshot_id: int | None) -> str | None:
    """Snapshot ids are text in JSON: JavaScript would round them."""
    return None if snapshot_id is None else str(snapshot_id)
