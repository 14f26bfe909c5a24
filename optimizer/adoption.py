"""Merges by adoption: base gets the packs and hidden positions of one layer (docs/protocols.md, rule 5.6).

PyArrow builds the layer in this process, and the server writes its manifests and commits it. No Spark is started. What
PyArrow cannot do goes on in Spark, unless the mode `adopt` was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from firn.protocol.leases import Outcome, Result
from firn.protocol.tasks.image import Layer
from firn.protocol.tasks.merge import AdoptionTask, AdoptRequest, MergeMode, MergeTask
from firn.scan.lineage import LineageFile, list_lineage_files
from firn.scan.newest import OP
from firn.scan.reading import ColumnReader
from optimizer.errors import JobError, Refused, Unknown
from optimizer.images.changes import KeyColumns
from optimizer.images.layer import LayerPlan, build_layer
from optimizer.images.pair import check_metadata, make_directory
from optimizer.images.positions import measure_key_bytes
from optimizer.images.rewriting import Rewriting
from optimizer.job_run import Attempt
from optimizer.stores import NeedsSpark, open_store

_FIRST_WITH_ROW_IDS = 3
COMMIT_SECONDS = 120.0
"""The time that the server has to write manifests and commit."""


@dataclass(frozen=True)
class _Stores:
    """Both stores as the job reads them, and the files of base and of change that it may open."""

    base: Table
    change: Table
    base_files: Sequence[FileScanTask]
    change_files: Sequence[LineageFile]


def run(attempt: Attempt) -> Result | None:
    """Merge and clean; None if the task asks for another mode, or if this merge needs Spark."""
    task = MergeTask.model_validate(attempt.lease.task)
    if task.mode is not MergeMode.ADOPT or task.adoption is None:
        return None
    built = _build(attempt, task, task.adoption)
    if built is None:
        return None
    stores, layer = built
    summaries = [_summary_of(stores.base), _summary_of(stores.change)]
    done: dict[str, Any] = {}
    if layer is not None:
        left = f", {task.left_rows} are left for the next merge" if task.left_rows else ""
        attempt.keeper.say(f"merging {task.pending_rows} pending rows by adoption{left}")
        attempt.keeper.stage("committing")
        summaries[0] = _commit(attempt, task, stores.base, layer)
        done = {
            "mode": str(task.mode),
            "pending_rows": task.pending_rows,
            "left_rows": task.left_rows,
            "merged_through": task.through,
        }
    done["cleaned_files"], summaries[1] = _clean_after(attempt, task, stores, summaries[1])
    if layer is not None:
        before = [_summary_of(stores.base), _summary_of(stores.change)]
        removed = set(layer.removed_files)
        size = sum(part.file.file_size_in_bytes for part in stores.base_files if part.file.file_path in removed)
        done |= {"rewritten_files": len(removed), "rewritten_bytes": size, "gained": _measure_gain(before, summaries)}
    outcome = Outcome.COMMITTED if attempt.keeper.has_committed else Outcome.NOTHING
    return Result(outcome=outcome, result=done)


def _build(attempt: Attempt, task: MergeTask, adoption: AdoptionTask) -> tuple[_Stores, Layer | None] | None:
    """The stores, and the layer if changes are pending. None if Spark has to merge, and may."""
    attempt.keeper.stage("reading both stores")
    try:
        stores = _open_stores(attempt, task, adoption)
        return stores, _build_layer(attempt, task, adoption, stores) if task.pending else None
    except (JobError, httpx.HTTPError):
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        if adoption.otherwise is None:
            raise Refused(f"the changes cannot be merged by adoption: {reason}; merge with mode auto") from error
        attempt.keeper.say(f"this merge needs Spark: {reason}")
        return None


def _open_stores(attempt: Attempt, task: MergeTask, adoption: AdoptionTask) -> _Stores:
    stores = _list_files(attempt, task, own_credentials=False)
    if attempt.lease.delegation and attempt.file_access.allowed:
        attempt.keeper.say("files lie outside of the table's directories: this optimizer opens them by itself")
        stores = _list_files(attempt, task, own_credentials=True)
    _check_key_size(stores, task, adoption)
    return stores


def _list_files(attempt: Attempt, task: MergeTask, *, own_credentials: bool) -> _Stores:
    """Every file is checked before it is opened. Change files may be newer than the task: their rows say so."""
    check = attempt.file_access.check_files
    base = open_store(attempt, task.base.parts, own_credentials=own_credentials)
    change = open_store(attempt, task.change.parts, own_credentials=own_credentials)
    head = base.current_snapshot()
    if (None if head is None else head.snapshot_id) != task.base.snapshot_id:
        raise Refused("base has changed since the merge was planned; the next merge reads it again")
    check_metadata(base, check)
    check_metadata(change, check)
    base_files = list(base.scan().plan_files()) if head is not None else []
    change_files = list_lineage_files(change)
    check(
        [task.file.file_path for task in base_files] + [d.file_path for part in base_files for d in part.delete_files]
    )
    check([file.file.file_path for file in change_files])
    return _Stores(base, change, base_files, change_files)


def _check_key_size(stores: _Stores, task: MergeTask, adoption: AdoptionTask) -> None:
    """NeedsSpark if base's key columns are larger than the job may read."""
    size = measure_key_bytes(stores.base, [part.file for part in stores.base_files], task.primary_key)
    if size > adoption.most_key_bytes:
        raise NeedsSpark(f"the key columns of base are {size:,} bytes, and {adoption.most_key_bytes:,} may be read")


def _build_layer(attempt: Attempt, task: MergeTask, adoption: AdoptionTask, stores: _Stores) -> Layer:
    attempt.keeper.stage("merging")
    make_directory(adoption.directory)
    files = [file for file in stores.change_files if task.sequence_field or file.sequence_number > task.watermark]
    return build_layer(
        LayerPlan(
            base=stores.base,
            base_files=stores.base_files,
            change=stores.change,
            files=files,
            columns=KeyColumns(
                primary_key=tuple(task.primary_key), sequence_field=task.sequence_field, insert_only=task.insert_only
            ),
            watermark=task.watermark,
            through=task.through,
            directory=adoption.directory,
            name=f"adopted-{attempt.lease.job_id}-{attempt.lease.attempt}",
            format_version=adoption.format_version,
            rewriting=_plan_rewriting(adoption, stores.base),
        )
    )


def _plan_rewriting(adoption: AdoptionTask, base: Table) -> Rewriting | None:
    if adoption.rewriting is None:
        return None
    if adoption.format_version < _FIRST_WITH_ROW_IDS:
        return Rewriting(rule=adoption.rewriting, lineage=None)
    files = list_lineage_files(base, may_have_deletes=True)
    return Rewriting(rule=adoption.rewriting, lineage={file.file.file_path: file for file in files})


def _commit(attempt: Attempt, task: MergeTask, base: Table, layer: Layer) -> Mapping[str, str]:
    """Have base adopt the layer. Its files are deleted only if the commit was certainly refused (rule 2.7)."""
    request = AdoptRequest(
        layer=layer,
        base_snapshot_id=task.base.snapshot_id,
        change_snapshot_id=task.change.snapshot_id,
        watermark=task.watermark,
        through=task.through,
    )

    def discard() -> None:
        for location in list_written(layer):
            with suppress(OSError):
                base.io.delete(location)

    def adopt() -> Mapping[str, str]:
        return attempt.api.adopt(attempt.lease, request, seconds=COMMIT_SECONDS).summary

    try:
        return attempt.commit(adopt, unless_asked=discard)
    except Refused:
        discard()
        raise


def list_written(layer: Layer) -> set[str]:
    """The files that an optimizer has written for a layer."""
    packs = {pack.location for pack in (*layer.packs, *layer.rewritten)}
    return packs | {hidden.location for hidden in layer.hidden}


def _clean_after(
    attempt: Attempt, task: MergeTask, stores: _Stores, summary: Mapping[str, str]
) -> tuple[int, Mapping[str, str]]:
    """Take merged files out of the change store. If that fails, the merge stays and the next clean takes the files."""
    attempt.keeper.stage("cleaning")
    try:
        files = _list_merged(task, stores)
        if not files:
            return 0, summary
        cleaned = attempt.commit(lambda: attempt.api.clean(attempt.lease, files, seconds=COMMIT_SECONDS).summary)
    except (Refused, Unknown, OSError, ValueError) as error:
        attempt.keeper.say(f"merged, but not cleaned: {error}")
        return 0, summary
    attempt.keeper.say(f"{len(files)} merged files left the change store")
    return len(files), cleaned


def _list_merged(task: MergeTask, stores: _Stores) -> list[str]:
    """Change files whose rows base contains all. A compacted one carries a later number than its rows: it stays."""
    clean = task.clean
    merged = [file for file in stores.change_files if file.sequence_number <= clean.through]
    if clean.keep_deletes:
        young = clean.deletes_through or 0
        merged = [file for file in merged if file.sequence_number <= young or not _has_deletes(stores.change, file)]
    return [file.file.file_path for file in merged]


def _has_deletes(change: Table, file: LineageFile) -> bool:
    operations = ColumnReader(change, Schema(change.schema().find_field(OP))).read(file.file)[OP]
    return bool(pc.any(pc.equal(operations, "D")).as_py())


def _summary_of(table: Table) -> Mapping[str, str]:
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return {}
    return snapshot.summary.additional_properties


_TOTALS = {"files": "total-data-files", "bytes": "total-files-size", "deletes": "total-delete-files"}


def _measure_gain(before: Sequence[Mapping[str, str]], after: Sequence[Mapping[str, str]]) -> dict[str, int]:
    """Files, bytes and delete files that a full scan reads, before and after the merge."""
    return {
        f"{name}_{when}": sum(int(summary.get(total) or 0) for summary in summaries)
        for name, total in _TOTALS.items()
        for when, summaries in (("before", before), ("after", after))
    }
