"""Convert: fill a new table with the rows of a Hive table. Spark reads and rewrites them.

The task names the directories of the Hive table, so server.service.hive builds it.
"""

from __future__ import annotations

from datetime import timedelta

from catalog.errors import Invalid
from catalog.jobs.job import JobKind
from catalog.maintenance.kind import MaintenanceKind
from catalog.planning.facts import TableFacts
from catalog.tables.relation import Relation, RelationKind


def check_takes(_relation: Relation, _facts: TableFacts) -> None:
    """Always Invalid: a conversion creates the new table together with its job."""
    raise Invalid("a conversion starts with a scan of Hive", hint="run `firn hive convert TABLE`")


CONVERT = MaintenanceKind(
    name=JobKind.CONVERT,
    max_wait=timedelta(minutes=30),
    check_takes=check_takes,
    commits={RelationKind.BASE: frozenset({"append"})},
)
