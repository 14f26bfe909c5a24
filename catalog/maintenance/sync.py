"""Sync: apply changes of Hive-side writers to a keyed table. A scan of Hive makes it due
(server.service.hive.sync).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.jobs.job import JobKind
from catalog.keyed.merge_task import build_clean_task, build_merge_task
from catalog.keyed.replay_task import build_replay_task, read_replay_end
from catalog.keyed.spec import BASE, CHANGE
from catalog.maintenance.context import JobContext
from catalog.maintenance.kind import MaintenanceKind
from catalog.maintenance.merge import build_merge_policy
from catalog.planning.facts import TableFacts
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.tasks.sync import SyncTask


def check_takes(relation: Relation, _facts: TableFacts) -> None:
    """Always Invalid: a sync starts with a scan of Hive."""
    raise Invalid(f"a sync of {relation.name} starts with a scan of Hive", hint=f"run `firn hive sync {relation.name}`")


def finish_task(context: JobContext, staged: Json) -> SyncTask:
    """The task from staged facts, which the scan of Hive found.

    A sync that rebuilds partitions is also a merge, of all changes whether pending or not.
    """
    keyed, base, change = context.keyed_table, context.metadata[BASE], context.metadata[CHANGE]
    through = read_replay_end(change)
    clean = build_clean_task(keyed, context.relation.name, through=through, policy=build_merge_policy(context))
    everything = replace(build_merge_policy(context), max_job_rows=None)
    merge = build_merge_task(keyed, context.relation.name, base, change, policy=everything)
    merged = merge.model_copy(update={"through": through, "clean": clean})
    replay = build_replay_task(keyed, context.relation.name, base, change)
    return SyncTask.model_validate({**staged, "merge": merged, "replay": replay})


SYNC = MaintenanceKind(
    name=JobKind.SYNC,
    max_wait=timedelta(minutes=5),
    finish_task=finish_task,
    tables=frozenset({RelationKind.KEYED}),
    check_takes=check_takes,
    commits={
        RelationKind.BASE: frozenset({"append", "overwrite", "delete"}),
        RelationKind.CHANGE: frozenset({"append", "delete"}),
    },
)
