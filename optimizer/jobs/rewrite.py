"""Rewrite: files of a plain table or of a base store are packed, sorted or z-ordered, by Iceberg's own action.

The plan is made twice by Iceberg's planner: here, to see how much there is and how much of it fits into one job, and
again by the action. Groups of files are committed as they are done. A commit of somebody else that took a group's files
away costs the commit that the group is in; what is left then is planned again, on the table as it is by now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from firn.protocol.leases import Outcome, Result
from firn.protocol.names import join_name
from firn.protocol.tasks.files import RewriteTask
from firn.spark.errors import reason
from firn.spark.java import iterate, to_java_strings
from optimizer.errors import LeaseLost, Refused, Unknown
from optimizer.failures import explain_failure
from optimizer.job import OptimizerJob
from optimizer.job_run import JobRun
from optimizer.job_totals import Changes, JobTotals, since
from optimizer.jobs.rewrite_deletes import drop_dangling
from optimizer.read_checks import reads_main_store, refresh_checked

ROUNDS = 3
"""The number of times that a job plans again after a conflict."""
MAX_COMMITS = 20
"""A job of up to this many groups commits each of them alone. A job of more groups commits several at once: otherwise
rewrites would fill the table's history."""
LEAST_DELETE_RATIO = 1e-9
"""Iceberg takes no 0, which means: rewrite whatever has lost a row."""


@dataclass(frozen=True)
class Plan:
    """The result of Iceberg's planner for the head, and the part of it that one job takes."""

    head: int | None
    groups: int = 0
    files: int = 0
    bytes: int = 0
    left_files: int = 0
    groups_in_all: int = 0
    """All groups of the plan, with those that this job leaves to the next one."""


@dataclass
class _Tried:
    """The results of the groups of all rounds; `refused` is the reason of a group that failed last, if known."""

    done: int = 0
    failed: int = 0
    left_files: int = 0
    refused: Refused | None = None


def run(work: JobRun) -> Result:
    """Rewrite the chosen files, within the limits of one job."""
    task = RewriteTask.model_validate(work.lease.task)
    table = work.session.table(task.parts)
    totals = JobTotals.opened(work, table)
    tried = _rounds(work, _Rewrite(work, task, table))
    dangling = _drop_dangling(work, table, task.parts)
    changes = totals.changes()
    work.keeper.has_committed = changes.commits > 0  # the action says nothing where it has found nothing
    if tried.failed and not changes.commits:
        if work.keeper.is_stopping:
            raise LeaseLost("this optimizer is stopping")
        raise tried.refused or Unknown(f"none of {tried.failed} groups of files could be written and committed")
    counts: dict[str, Any] = {"groups_done": tried.done, "groups_failed": tried.failed, "left_files": tried.left_files}
    if tried.failed and tried.refused is not None:
        counts["failed_because"] = str(tried.refused)
    result = counts | _counted(changes) | {"gained": totals.gained(changes)}
    if not changes.commits:
        return Result(outcome=Outcome.NOTHING, result=result)
    work.keeper.say(f"{changes.removed_files} files became {changes.added_files}, {dangling} delete files dangled")
    return Result(outcome=Outcome.COMMITTED, result=result)


def _rounds(work: JobRun, rewrite: _Rewrite) -> _Tried:
    tried = _Tried()
    for _ in range(ROUNDS):
        work.keeper.stage("planning")
        plan = rewrite.plan()
        tried.left_files, tried.failed, tried.refused = plan.left_files, 0, None
        if not plan.groups:
            break
        work.keeper.stage(f"rewriting {plan.files} files in {plan.groups} groups")
        done = _attempted(work, rewrite, plan, tried)
        tried.failed = max(plan.groups - done, 0)  # the action plans again, and may find more
        if not tried.failed or work.keeper.is_stopping:
            break
        if rewrite.was_overtaken(plan):
            work.keeper.say(
                f"{tried.failed} of {plan.groups} groups were not committed: others have changed their files"
            )
        elif not _is_passing(work, rewrite, plan, tried):
            break
    return tried


def _attempted(work: JobRun, rewrite: _Rewrite, plan: Plan, tried: _Tried) -> int:
    """Commit the groups; return their number. A refusal is kept."""
    had_committed = work.keeper.has_committed
    done = 0
    try:
        done = work.commit(partial(rewrite.execute, plan))
    except Refused as refused:
        tried.refused = refused
    work.keeper.has_committed = had_committed or done > 0
    tried.done += done
    return done


def _is_passing(work: JobRun, rewrite: _Rewrite, plan: Plan, tried: _Tried) -> bool:
    """Whether a further round may commit groups that have failed without a conflict. If not, `refused` has a reason.

    With several groups, Iceberg's action only counts those that fail. It gives a reason for a group that it gets alone.
    """
    if plan.groups > 1:
        alone = rewrite.plan(most=1)
        if alone.groups:
            tried.failed -= _attempted(work, rewrite, alone, tried)
    if tried.refused is not None:
        work.keeper.say(f"{tried.failed} of {plan.groups} groups cannot be written: {tried.refused}")
    return tried.refused is None


def _counted(changes: Changes) -> dict[str, int]:
    return {
        "rewritten_files": changes.removed_files,
        "rewritten_bytes": changes.removed_bytes,
        "added_files": changes.added_files,
        "added_bytes": changes.added_bytes,
        "removed_delete_files": changes.removed_deletes,
    }


def _drop_dangling(work: JobRun, table: Any, parts: Sequence[str]) -> int:
    """Drop delete files that apply to nothing. If that fails, the rewrite stands, and the next one drops them."""
    refresh_checked(work, table, parts)
    head = table.currentSnapshot()
    if (
        head is None
        or head.summary().get("total-delete-files") == "0"
        or not work.keeper.has_committed
        or work.keeper.is_stopping
    ):
        return 0
    try:
        return drop_dangling(work, table)
    except (Refused, Unknown, Py4JError, PySparkException) as error:
        work.keeper.say(
            f"rewritten, but delete files that apply to nothing are left: {explain_failure(error, work.lease)}"
        )
        return 0


@dataclass(frozen=True)
class _Rewrite:
    work: JobRun
    task: RewriteTask
    table: Any

    def plan(self, *, most: int | None = None) -> Plan:
        """Plan the next groups, up to a number. Raises Refused for an unknown filter, order or column."""
        refresh_checked(self.work, self.table, self.task.parts)
        if self.table.currentSnapshot() is None:
            return Plan(None)
        self._action()  # the order is looked at before anything is read
        head = self.table.currentSnapshot().snapshotId()
        planner = self.work.session.jvm.org.apache.iceberg.actions.BinPackRewriteFilePlanner(
            self.table, self._filter(), head, True
        )
        planner.init(self._java_map(self._options()))
        sizes = [(group.inputFileNum(), group.inputFilesSizeInBytes()) for group in iterate(planner.plan().groups())]
        chosen = _within(sizes[:most], None if self.task.everything else self.task.max_job_bytes)
        files = sum(count for count, _ in sizes[:chosen])
        size = sum(size for _, size in sizes[:chosen])
        left = sum(count for count, _ in sizes[chosen:])
        return Plan(head, chosen, files, size, left_files=left, groups_in_all=len(sizes))

    def was_overtaken(self, plan: Plan) -> bool:
        """Whether somebody else has committed since this was planned."""
        self.table.refresh()
        return any(summary.get("firn.job-id") != self.work.lease.job_id for summary in since(self.table, plan.head))

    def execute(self, plan: Plan) -> int:
        """Execute the plan with Iceberg's action; returns the number of committed groups."""
        action = self._action()
        action.filter(self._filter())
        for key, value in (self._options() | _progress(plan)).items():
            action.option(key, value)
        # The action does not read the session's snapshot properties.
        action.snapshotProperty("firn.job-id", self.work.lease.job_id)
        return int(action.execute().rewriteResults().size())

    def _action(self) -> Any:
        actions = self.work.session.jvm.org.apache.iceberg.spark.actions.SparkActions.get(self.work.session.java)
        action = actions.rewriteDataFiles(self.table)
        try:
            match self.task.strategy:
                case "sort":
                    return action.sort(self._sort_order())
                case "zorder":
                    return action.zOrder(to_java_strings(self.work.session.spark, self._zorder_columns()))
                case _:
                    return action.binPack()
        except (Py4JError, PySparkException) as error:
            raise Refused(f"cannot {self.task.strategy} {self._name}: {reason(error)}") from error

    def _sort_order(self) -> Any:
        if not self.task.sort_order:
            return self._own_order()
        builder = self.work.session.jvm.org.apache.iceberg.SortOrder.builderFor(self.table.schema())
        for column in self._columns():
            builder.asc(column)
        return builder.build()

    def _zorder_columns(self) -> list[str]:
        if self.task.sort_order:
            return self._columns()
        fields = list(self._own_order().fields())
        if not all(field.transform().isIdentity() for field in fields):
            raise Refused(f"{self._name} is sorted by transforms of columns: name the columns to z-order by")
        return [self.table.schema().findColumnName(field.sourceId()) for field in fields]

    def _own_order(self) -> Any:
        order = self.table.sortOrder()
        if order.isUnsorted():
            raise Refused(f"{self._name} has no sort order: set one, or name columns in firn.rewrite.sort-order")
        return order

    def _columns(self) -> list[str]:
        unknown = [name for name in self.task.sort_order if self.table.schema().findField(name) is None]
        if unknown:
            raise Refused(f"firn.rewrite.sort-order: {self._name} has no column {', '.join(unknown)}")
        return self.task.sort_order

    def _filter(self) -> Any:
        if self.task.filter is None:
            return self.work.session.jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue()
        converter = self.work.session.jvm.org.apache.spark.sql.execution.datasources.SparkExpressionConverter
        name = self.work.session.name(self.task.parts)
        try:
            resolved = converter.collectResolvedSparkExpression(self.work.session.java, name, self.task.filter)
            return converter.convertToIcebergExpression(resolved)
        except (Py4JError, PySparkException) as error:
            raise Refused(f"firn.rewrite.filter {self.task.filter!r}: {_first_line(error)}") from error

    def _options(self) -> dict[str, str]:
        """The options that planner and action share."""
        task = self.task
        options = {
            "target-file-size-bytes": task.target_file_size,
            "min-file-size-bytes": min(task.small_file_size, task.target_file_size - 1),
            "min-input-files": task.min_files,
            "delete-ratio-threshold": max(task.max_delete_ratio, LEAST_DELETE_RATIO),
            "rewrite-all": str(task.everything).lower(),
        }
        if task.apply_deletes:  # the ratio counts only deletes that name their one file
            options["delete-file-threshold"] = 1
        if not task.everything:
            options["max-file-group-size-bytes"] = task.max_job_bytes
        return {key: str(value) for key, value in options.items()}

    def _java_map(self, values: Mapping[str, str]) -> Any:
        java_map = self.work.session.jvm.java.util.HashMap()
        for key, value in values.items():
            java_map.put(key, value)
        return java_map

    @property
    def _name(self) -> str:
        return join_name(self.task.parts)


def _within(sizes: list[tuple[int, int]], most: int | None) -> int:
    """The number of first groups that fit into a job of this size; at least one."""
    total = 0
    for count, (_, size) in enumerate(sizes):
        total += size
        if most is not None and count and total > most:
            return count
    return len(sizes)


def _progress(plan: Plan) -> dict[str, str]:
    """Iceberg's options for several commits. A plan of one group has none, because its failure then has a reason.

    Iceberg divides all groups of its plan by the number of commits, even if this job takes only some groups. So the
    options allow as many commits as all groups would need. Iceberg counts commits that never come as failed.
    """
    bounded = {"max-files-to-rewrite": str(plan.files)} if plan.left_files else {}
    if plan.groups == 1:
        return bounded
    together = ceil(plan.groups / MAX_COMMITS)
    commits = str(ceil(plan.groups_in_all / together))
    return bounded | {
        "partial-progress.enabled": "true",
        "partial-progress.max-commits": commits,
        "partial-progress.max-failed-commits": commits,
    }


def _first_line(error: BaseException) -> str:
    text = reason(error) if isinstance(error, Py4JError) else str(error)
    return next((line for line in text.splitlines() if line.strip()), type(error).__name__).split(" SQLSTATE")[0]


JOB = OptimizerJob(run, reads_main_store)
