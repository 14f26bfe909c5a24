"""Publish: write merged partitions in Hive's format. A comparison with Hive makes it due
(server.service.hive.publish).
"""

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
    """Always Invalid: a publish first compares the table's files with Hive's."""
    raise Invalid(
        f"a publish of {relation.name} starts with a comparison of its files",
        hint=f"run `firn hive publish {relation.name}`",
    )


def finish_task(_context: JobContext, staged: Json) -> PublishTask:
    """The task from the staged partitions, which the comparison with Hive chose."""
    return PublishTask.model_validate(staged)


PUBLISH = MaintenanceKind(
    name=JobKind.PUBLISH,
    max_wait=timedelta(minutes=5),
    finish_task=finish_task,
    check_takes=check_takes,
    commits={RelationKind.BASE: frozenset({"replace"})},
)
