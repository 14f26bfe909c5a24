"""Pipeline: compute a table of a pipeline. The subject of such a job is no table in a catalog, so no planner sees it.

server.service.pipelines requests the jobs and builds their tasks.
"""

from __future__ import annotations

from datetime import timedelta

from catalog.errors import Invalid
from catalog.jobs.job import JobKind
from catalog.maintenance.kind import MaintenanceKind
from catalog.planning.facts import TableFacts
from catalog.tables.relation import Relation


def check_takes(_relation: Relation, _facts: TableFacts) -> None:
    """Always Invalid: a run belongs to a pipeline, also where its target does not exist yet."""
    raise Invalid("a run is requested for a pipeline", hint="run `firn pipeline run PIPELINE TABLE`")


PIPELINE = MaintenanceKind(name=JobKind.PIPELINE, max_wait=timedelta(minutes=5), check_takes=check_takes)
