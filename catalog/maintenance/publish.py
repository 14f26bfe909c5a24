"""Publish: write merged partitions as Hive reads them. A scan makes it due (server.service.hive.publish)."""

from __future__ import annotations

from datetime import timedelta

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.jobs.job import JobKind
from catalog.maintenance.context import JobContext
from catalog.maintenance.kind import MaintenanceKind
from catalog.planning.facts import TableFacts
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.tasks.publish import PublishTask


def check_takes(relation: Relation, _facts: TableFacts) -> None:
    """Invalid: there is nothing to publish before the table's files were compared with Hive's."""
    raise Invalid(
        f"a publish of {relation.name} begins with a look at its files",
        hint=f"run `firn hive publish {relation.name}`",
    )


def finish_task(_context: JobContext, staged: Json) -> PublishTask:
    """The partitions that the comparison with Hive has found are staged."""
    return PublishTask.model_validate(staged)


PUBLISH = MaintenanceKind(
    name=JobKind.PUBLISH,
    max_wait=timedelta(minutes=5),
    finish_task=finish_task,
    check_takes=check_takes,
    commits={RelationKind.BASE: frozenset({"replace"})},
)
