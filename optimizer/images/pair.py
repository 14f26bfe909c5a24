"""Opens the files of a pair of snapshots, each only after the server has allowed it.

A writer of a table chooses the paths in its metadata. So the builder asks before it opens a manifest list, the
manifests, and the files that these name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pyiceberg.io import FileIO
from pyiceberg.table import StaticTable, Table

from firn.protocol.tasks.image import Layer, LayerTask
from firn.scan.lineage import ALL, LineageFile, list_lineage_files
from optimizer.images.changes import KeyColumns
from optimizer.images.layer import LayerPlan, build_layer
from optimizer.images.old_rows import find_old_files
from optimizer.images.positions import measure_key_bytes


class TooLarge(Exception):
    """A build that is above the limits of its task; says which."""


Check = Callable[[Sequence[str]], None]
"""Raises when one of the files may not be opened."""


def build_from_task(task: LayerTask, check: Check, files: FileIO | None = None) -> Layer:
    """Build the layer, with `files` instead of the task's own access to files.

    See `build_layer` for failures; what `check` raises ends the build. TooLarge above limits.
    """
    base = StaticTable.from_metadata(task.base_metadata, task.file_io)
    change = StaticTable.from_metadata(task.change_metadata, task.file_io)
    if files is not None:
        base.io = change.io = files
    check_metadata(base, check)
    check_metadata(change, check)
    change_files = find_change_files(change, task)
    check([file.file.file_path for file in change_files])
    tasks = list(base.scan().plan_files()) if base.current_snapshot() else []
    size = measure_key_bytes(base, [part.file for part in tasks], task.primary_key)
    age = None if task.hides is None else base.schema().find_column_name(task.hides.field_id)
    if age is not None:
        size += measure_key_bytes(base, find_old_files(base, tasks, task.hides).part, [age])
    _check_size(task, size)
    check([part.file.file_path for part in tasks] + [d.file_path for part in tasks for d in part.delete_files])
    make_directory(task.directory)
    return build_layer(
        LayerPlan(
            base=base,
            base_files=tasks,
            change=change,
            files=change_files,
            columns=_key_columns(task, age),
            hides=task.hides,
            watermark=task.watermark,
            directory=task.directory,
            name=task.name,
            format_version=task.format_version,
            memory_bytes=task.memory_bytes,
        )
    )


def _key_columns(task: LayerTask, age: str | None) -> KeyColumns:
    return KeyColumns(
        primary_key=tuple(task.primary_key),
        sequence_field=task.sequence_field,
        insert_only=task.insert_only,
        age=age,
    )


def _check_size(task: LayerTask, key_bytes: int) -> None:
    if task.most_key_bytes is not None and key_bytes > task.most_key_bytes:
        raise TooLarge(f"the key columns of base are {key_bytes:,} bytes, and the server reads {task.most_key_bytes:,}")


def check_metadata(table: Table, check: Check) -> None:
    """Ask for the manifest list, and then for the manifests that it names."""
    snapshot = table.current_snapshot()
    if snapshot is not None:
        check([snapshot.manifest_list])
        check([manifest.manifest_path for manifest in snapshot.manifests(table.io)])


def find_change_files(change: Table, task: LayerTask) -> list[LineageFile]:
    """The files with pending changes; with a sequence field all, because merged deletes count, too."""
    return list_lineage_files(change, above=ALL if task.sequence_field else max(task.watermark, task.since))


def make_directory(location: str) -> None:
    """Make a directory of this machine; elsewhere files need none."""
    path = location.removeprefix("file://").removeprefix("file:")
    if path.startswith("/"):
        Path(path).mkdir(parents=True, exist_ok=True)
