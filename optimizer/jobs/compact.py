"""Compact: small files of a change store are packed into larger ones. Rows keep their ids and sequence numbers.

Iceberg's rewrite action does the writing and the committing, by its parts: as a whole it takes no choice of files, and
numbers what it writes by the head. Here the packed files of one side of the watermark are numbered by the newest commit
in them, so that they are pending or merged exactly as their rows are, and a clean finds them where it looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from firn.protocol.leases import Outcome, Result
from firn.protocol.tasks.files import CompactTask
from optimizer.bin_packing import ChosenPack, build_file_group, choose_packs, plan_file_groups
from optimizer.job import OptimizerJob
from optimizer.job_run import JobRun
from optimizer.job_totals import JobTotals
from optimizer.read_checks import reads_change_store, refresh_checked


def run(work: JobRun) -> Result:
    """Pack pending files, and merged files if the table keeps them; each side in one commit."""
    task = CompactTask.model_validate(work.lease.task)
    table = work.session.table(task.parts)
    totals = JobTotals.opened(work, table)
    work.keeper.stage("planning")
    chosen = [] if table.currentSnapshot() is None else choose_packs(work, task, table)
    for is_pending in (False, True):
        side = [packed for packed in chosen if packed.pack.is_pending is is_pending]
        if side:
            work.keeper.stage(f"packing {sum(len(packed.pack.files) for packed in side)} files into {len(side)}")
            _pack(work, task, table, side)
    changes = totals.changes()
    result = {
        "packed_files": changes.removed_files,
        "packed_bytes": changes.removed_bytes,
        "added_files": changes.added_files,
        "added_bytes": changes.added_bytes,
        "gained": totals.gained(changes),
    }
    if not work.keeper.has_committed:
        return Result(outcome=Outcome.NOTHING, result=result)
    work.keeper.say(f"{changes.removed_files} files became {changes.added_files}")
    return Result(outcome=Outcome.COMMITTED, result=result)


def _pack(work: JobRun, task: CompactTask, table: Any, side: Sequence[ChosenPack]) -> None:
    """Write and commit the packs of one side; deletes the written files if no commit was sent."""
    jvm = work.session.jvm
    refresh_checked(work, table, task.parts)
    action = jvm.org.apache.iceberg.spark.actions.SparkActions.get(work.session.java).rewriteDataFiles(table).binPack()
    action.option("target-file-size-bytes", str(task.target_file_size))
    action.snapshotProperty("firn.job-id", work.lease.job_id)
    action.init(table.currentSnapshot().snapshotId())
    manager = action.commitManager(_numbered(table, max(packed.pack.number for packed in side)))
    plan = plan_file_groups(work, task, table)
    written = jvm.java.util.HashSet()

    def abort() -> None:
        for group in list(written):
            manager.abortFileGroup(group)

    with ExitStack() as unwritten:
        unwritten.callback(abort)
        for packed in side:
            written.add(action.rewriteFiles(plan, build_file_group(work, task, packed)))
        unwritten.pop_all()
    work.commit(lambda: manager.commitOrClean(written), unless_asked=abort)


def _numbered(table: Any, number: int) -> int:
    """The snapshot whose sequence number the packed files get: the first on main from this number on."""
    return min(snapshot for snapshot in _main(table) if snapshot[0] >= number)[1]


def _main(table: Any) -> Iterator[tuple[int, int]]:
    """Sequence number and id of main's snapshots, newest first."""
    snapshot = table.currentSnapshot()
    while snapshot is not None:
        yield snapshot.sequenceNumber(), snapshot.snapshotId()
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.snapshot(parent)


JOB = OptimizerJob(run, reads_change_store)
