"""Check keys: count the keys of a keyed table that occur more than once. On request, keep one row of each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from catalog.access.privileges import Privilege
from catalog.errors import Invalid
from catalog.jobs.job import JobKind
from catalog.keyed.keys_task import KeepRule, build_keys_task
from catalog.keyed.spec import BASE
from catalog.maintenance.context import JobContext
from catalog.maintenance.dry_run import DryRun, measure_gain, read_totals
from catalog.maintenance.estimate import reads_all_data
from catalog.maintenance.kind import JobOptions, MaintenanceKind
from catalog.planning.dry_run_result import AffectedItems, DryRunResult
from catalog.planning.trigger_result import format_count
from catalog.tables.relation import RelationKind
from firn.protocol.tasks.keys import KeysTask


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysOptions(JobOptions):
    """Without `resolve` the job counts and changes nothing. With it, the job keeps one row of each key.

    The row with the highest value of the column `keep_highest` stays. Without that column, or among equal values, the
    row of the newest commit stays; within one commit that of the newest file, and there the last one. A sequence field
    decides first.
    """

    resolve: bool = False
    keep_highest: str | None = None

    def as_params(self) -> dict[str, Any]:
        """The parameters of the job; Invalid for `keep_highest` without `resolve`."""
        if self.keep_highest is not None and not self.resolve:
            raise Invalid("keep_highest says which rows stay, but resolve is not set", hint="set resolve to true")
        return KeepRule(self.keep_highest).as_params() if self.resolve else {}

    @property
    def privilege(self) -> Privilege:
        """A job that deletes rows needs the privilege to write."""
        return Privilege.WRITE if self.resolve else Privilege.MAINTAIN


def build_task(context: JobContext) -> KeysTask:
    """The SQL that counts keys; Invalid for a rule that the table's columns do not allow."""
    keep, linked = KeepRule.from_params(context.job.params), context.relation.hive_name is not None
    return build_keys_task(context.keyed_table, context.relation.name, context.metadata[BASE], keep, linked=linked)


def dry_run(run: DryRun) -> DryRunResult:
    """Files to read. The number of keys that occur more than once is only known when the job runs."""
    base = run.context.main_store[1]
    now = read_totals(base)
    over = f"the keys of {format_count(now['rows'], 'row')}"
    resolves = run.task_as(KeysTask).resolves
    return DryRunResult(
        action=f"count {over}, and keep one row of each that occurs more than once" if resolves else f"count {over}",
        affected=[AffectedItems("files to read", now["files"], now["bytes"])],
        gain=measure_gain(base),
        exact=not resolves,
        notes=["how many rows leave is known when it runs"] if resolves else ["only the key columns are read"],
    )


KEYS = MaintenanceKind(
    name=JobKind.KEYS,
    max_wait=timedelta(hours=6),
    estimate=reads_all_data,
    build_task=build_task,
    dry_run=dry_run,
    options=KeysOptions,
    tables=frozenset({RelationKind.KEYED}),
    commits={RelationKind.BASE: frozenset({"overwrite", "delete"})},
    checks_request=True,
)
