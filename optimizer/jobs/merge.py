"""Merge: what is pending in the change store goes into base, as one commit; then the merged files leave change.

Three ways (docs/architecture.md#merges). `adopt` needs no Spark: see optimizer.adoption. `rewrite` overwrites the
touched partitions with the merged view of them. `vectors` is a MERGE INTO of the changes that take effect; on an
insert-only table it appends them. All of them read the stores as the lease found them and sign the commit with these
snapshots. The server refuses the commit when base has moved meanwhile.
"""

# ruff: noqa: S608 -- SQL of quoted names, and of values that partitions.py has escaped

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriterV2
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.leases import Outcome, Result
from firn.protocol.names import quote_name
from firn.protocol.tasks.merge import CleanTask, MergeMode, MergeTask
from optimizer import adoption
from optimizer.errors import Refused, Unknown
from optimizer.failures import explain_failure
from optimizer.job import OptimizerJob
from optimizer.job_run import JobRun
from optimizer.job_totals import JobTotals
from optimizer.jobs.clean import clean
from optimizer.partitions import predicate
from optimizer.read_checks import reads_both_stores

EVERYTHING = "true"
NOTHING = "false"
_EFFECTIVE = "firn_effective"
_DELETED = 2
"""The status of a manifest's entries for files that are gone."""


@dataclass(frozen=True)
class Plan:
    """How to merge. `where` selects the touched partitions and `target_where` the same of MERGE's target `t`."""

    mode: str
    where: str | None = None
    target_where: str | None = None


def run(work: JobRun) -> Result:
    """Merge pending changes, if there are any; then clean."""
    task = choose_mode_in_spark(MergeTask.model_validate(work.lease.task))
    done: dict[str, Any] = {}
    totals: JobTotals | None = None
    if task.pending:
        work.keeper.stage("finding touched partitions")
        plan = _planned(work, task)
        left = f", {task.left_rows} are left for the next merge" if task.left_rows else ""
        work.keeper.say(f"merging {task.pending_rows} pending rows by {plan.mode}{left}")
        totals = JobTotals.opened(work, *[work.session.table(store.parts) for store in (task.base, task.change)])
        work.keeper.stage("merging")
        merge = _rewrite if plan.mode == "rewrite" else _merge_into
        work.commit(lambda: merge(work, task, plan))
        done = {
            "mode": plan.mode,
            "pending_rows": task.pending_rows,
            "left_rows": task.left_rows,
            "merged_through": task.through,
        }
    done["cleaned_files"] = clean_after(work, task.clean)
    if totals is not None:
        changes = totals.changes()
        done |= {"rewritten_bytes": changes.removed_bytes, "gained": totals.gained(changes)}
    outcome = Outcome.COMMITTED if work.keeper.has_committed else Outcome.NOTHING
    return Result(outcome=outcome, result=done)


def choose_mode_in_spark(task: MergeTask) -> MergeTask:
    """The task; one whose adoption turned out to be impossible gets the mode that it names instead."""
    if task.mode is not MergeMode.ADOPT:
        return task
    return task.model_copy(update={"mode": (task.adoption and task.adoption.otherwise) or MergeMode.AUTO})


def build_signature(work: JobRun, task: MergeTask) -> dict[str, str]:
    """Build the summary of a merge's snapshot; the server compares it with its own state."""
    return {
        "firn.merged-from": str(task.watermark),
        "firn.merged-through": str(task.through),
        "firn.merged-base": str(task.base.snapshot_id or "none"),
        "firn.merged-change": str(task.change.snapshot_id or "none"),
        "firn.job-id": work.lease.job_id,
    }


def clean_after(work: JobRun, task: CleanTask) -> int:
    """Clean after a merge. If that fails, the merge stays and the next clean takes the files."""
    work.keeper.stage("cleaning")
    try:
        return clean(work, task)
    except (Refused, Unknown, Py4JError, PySparkException) as error:
        work.keeper.say(f"merged, but not cleaned: {explain_failure(error, work.lease)}")
        return 0


def _planned(work: JobRun, task: MergeTask) -> Plan:
    """Touched partitions prune both ways of merging; rewriting needs files that lie in them whole."""
    if task.partition is None:
        return Plan("vectors")
    if task.mode == "vectors" and task.scope == "global" and task.base.snapshot_id is not None:
        # Where keys may move, finding the partitions reads as much of base as a MERGE that is not told of them.
        return Plan("vectors")
    if task.mode == "auto" and task.scope == "global" and _is_spread(work, task):
        return Plan("vectors")
    where, target_where = _partitions(work, task, "touched")
    if where is None:
        return Plan("vectors")
    if where == NOTHING or task.base.snapshot_id is None:
        return Plan("rewrite", where)
    if not _has_one_live_spec(work, task):
        return Plan("vectors", where, target_where)
    return Plan(task.mode if task.mode != "auto" else _cheaper_mode(work, task, where), where, target_where)


def _has_one_live_spec(work: JobRun, task: MergeTask) -> bool:
    """Whether all live files are partitioned as the table is now: a predicate over columns cuts others in two."""
    if task.base.specs == 1:
        return True
    manifests = work.session.spark.table(f"{work.session.name(task.base.parts)}.manifests")
    live = manifests.where("added_data_files_count + existing_data_files_count > 0").select("partition_spec_id")
    return {row[0] for row in live.distinct().collect()} <= {task.base.spec_id}


def _is_spread(work: JobRun, task: MergeTask) -> bool:
    """Whether the partitions that rows are written to hold too much already to be rewritten.

    Those touched hold no less, and finding them reads base, which takes as long as half a merge by vectors.
    """
    if task.base.snapshot_id is None:
        return False
    where, _ = _partitions(work, task, "led_to")
    return where is None or _cheaper_mode(work, task, where) == "vectors"


def _partitions(work: JobRun, task: MergeTask, which: str) -> tuple[str | None, str | None]:
    """A predicate for the partitions that one of the task's queries finds, and the same over MERGE's target."""
    fields = task.partition or []
    if not fields:
        return EVERYTHING, EVERYTHING
    by_files = task.change.partition_names if which == "led_to" or task.scope == "partition" else None
    partitions = work.session.spark.sql(task.sql[which]) if by_files is None else _of_files(work, task, by_files)
    types = [field.dataType.simpleString() for field in partitions.schema.fields]
    rows = [tuple(row) for row in format_partitions(partitions).collect()]
    work.keeper.say(f"{len(rows)} partitions are {'touched' if which == 'touched' else 'written to'}")
    return predicate(fields, types, rows), predicate(fields, types, rows, alias="t")


def _of_files(work: JobRun, task: MergeTask, names: list[str]) -> DataFrame:
    """The partitions of the pending files: no row is read, and those come too whose changes take no effect."""
    entries = work.session.spark.table(f"{work.session.name(task.change.parts)}.entries")
    pending = entries.where((F.col("status") < _DELETED) & (F.col("sequence_number") > task.watermark))
    return pending.select(*[F.col(f"data_file.partition.{quote_name(name)}") for name in names]).distinct()


def format_partitions(partitions: DataFrame) -> DataFrame:
    """Format partition values for predicates."""
    return partitions.select(
        *[
            F.hex(quote_name(field.name))
            if field.dataType.simpleString() == "binary"
            else F.col(quote_name(field.name)).cast("string")
            for field in partitions.schema.fields
        ]
    )


def _cheaper_mode(work: JobRun, task: MergeTask, where: str) -> str:
    """Rewriting costs what the touched partitions hold, vectors cost per change and again with every read."""
    counted = work.session.spark.table(work.session.name(task.base.parts)).where(where).count()
    share = counted / task.base.records if task.base.records else 1.0
    is_small = share * (task.base.bytes or 0) <= task.small_bytes
    return "rewrite" if is_small or task.pending_rows >= task.large_share * counted else "vectors"


def _rewrite(work: JobRun, task: MergeTask, plan: Plan) -> None:
    where = plan.where or EVERYTHING
    rows = work.session.spark.sql(task.sql["merged"]).where(where)
    writer = sign_properties(rows.writeTo(work.session.name(task.base.parts)), build_signature(work, task))
    writer = writer.option("target-file-size-bytes", task.target_file_size)
    if task.base.snapshot_id is None or where == NOTHING:
        writer.append()  # of no rows at all when no partition is touched: only the watermark moves
        return
    writer = writer.option("isolation-level", "serializable")
    writer.option("validate-from-snapshot-id", task.base.snapshot_id).overwrite(F.expr(where))


def sign_properties(writer: DataFrameWriterV2, properties: Mapping[str, str]) -> DataFrameWriterV2:
    """Add the signature to the summary of the writer's snapshot."""
    for key, value in properties.items():
        writer = writer.option(f"snapshot-property.{key}", value)
    return writer


def run_signed(work: JobRun, statement: str, properties: dict[str, str]) -> None:
    """Statements take no options: the signature goes through the session, which is this job's alone."""
    conf = work.session.spark.conf
    keys = {key: f"spark.sql.iceberg.snapshot-property.{key}" for key in properties}
    for key, value in properties.items():
        conf.set(keys[key], value)
    try:
        work.session.spark.sql(statement)
    finally:
        for key in properties:
            conf.unset(keys[key])


def _merge_into(work: JobRun, task: MergeTask, plan: Plan) -> None:
    if task.insert_only:  # base has none of the keys
        rows = work.session.spark.sql(task.sql["effective"]).select([quote_name(name) for name in task.columns])
        writer = sign_properties(rows.writeTo(work.session.name(task.base.parts)), build_signature(work, task))
        writer.option("target-file-size-bytes", task.target_file_size).append()
        return
    work.session.spark.sql(task.sql["effective"]).createOrReplaceTempView(_EFFECTIVE)
    run_signed(work, merge_sql(work, task, _EFFECTIVE, plan.target_where), build_signature(work, task))


def merge_sql(work: JobRun, task: MergeTask, source: str, target_where: str | None = None) -> str:
    """The statement that brings the changes of `source` into base; keys are met only where `target_where` holds."""
    same_key = " AND ".join(f"t.{quote_name(key)} = s.{quote_name(key)}" for key in task.primary_key)
    names = ", ".join(quote_name(column) for column in task.columns)
    values = ", ".join(f"s.{quote_name(column)}" for column in task.columns)
    updates = ", ".join(f"t.{quote_name(column)} = s.{quote_name(column)}" for column in task.columns)
    if task.partial:
        updates = task.sql["update"]
    # No key is met outside the touched partitions, so the rest of base need not be read.
    pruned = f" AND {target_where}" if target_where else ""
    return (
        f"MERGE INTO {work.session.name(task.base.parts)} AS t USING {source} AS s ON {same_key}{pruned}"
        " WHEN MATCHED AND s._op = 'D' THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {updates}"
        f" WHEN NOT MATCHED AND s._op <> 'D' THEN INSERT ({names}) VALUES ({values})"
    )


JOB = OptimizerJob(run, reads_both_stores, adoption.run)
