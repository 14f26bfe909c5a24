"""Bin-packing of small files: the packs of a change store, as file groups of Iceberg's rewrite action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from catalog.files.change_packing import ChangeFile, Pack, pack_files
from firn.protocol.tasks.files import CompactTask
from firn.spark.java import iterate
from optimizer.job_run import JobRun


@dataclass(frozen=True)
class ChosenPack:
    """A pack, the group that Iceberg's planner put its partition into, and the tasks that read its files."""

    pack: Pack
    group: Any
    tasks: Sequence[Any]


def choose_packs(work: JobRun, task: CompactTask, table: Any) -> list[ChosenPack]:
    """Choose the packs of all partitions; merged files are packed only where they stay."""
    chosen: list[ChosenPack] = []
    for group in iterate(plan_file_groups(work, task, table).groups()):
        tasks = list(group.fileScanTasks())
        files = [
            ChangeFile(index, scan.file().fileSizeInBytes(), scan.file().dataSequenceNumber())
            for index, scan in enumerate(tasks)
        ]
        packs = pack_files(
            files, watermark=task.watermark, target_bytes=task.target_file_size, min_files=task.min_files
        )
        wanted = (pack for pack in packs if pack.is_pending or task.pack_merged)
        chosen += [ChosenPack(pack, group, [tasks[file.index] for file in pack.files]) for pack in wanted]
    return chosen


def plan_file_groups(work: JobRun, task: CompactTask, table: Any) -> Any:
    """Plan a rewrite of every live file, grouped by partition."""
    jvm = work.session.jvm
    planner = jvm.org.apache.iceberg.actions.BinPackRewriteFilePlanner(
        table, jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue(), table.currentSnapshot().snapshotId(), True
    )
    options = jvm.java.util.HashMap()
    options.put("rewrite-all", "true")
    options.put("target-file-size-bytes", str(task.target_file_size))
    options.put("max-file-group-size-bytes", str(2**62))
    planner.init(options)
    return planner.plan()


def build_file_group(work: JobRun, task: CompactTask, chosen: ChosenPack) -> Any:
    """Build the group of a pack. Spark reads it in one split, because it writes a file for each split."""
    tasks = work.session.jvm.java.util.ArrayList()
    for scan in chosen.tasks:
        tasks.add(scan)
    bytes_at_once = max(2 * task.target_file_size, 2 * chosen.pack.bytes)
    group = chosen.group
    return work.session.jvm.org.apache.iceberg.actions.RewriteFileGroup(
        group.info(), tasks, group.outputSpecId(), bytes_at_once, bytes_at_once, 1
    )
