"""What merges, cleans and rewrites would do."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.keyed.spec import CHANGE
from catalog.planning.need import counted
from catalog.ports.reading import ListedFile
from catalog.would import Touch, Would, largest
from server.service.dryruns.look import Look, by_partition, gained, totals


def merge(look: Look) -> Would:
    """Pending changes, and the partitions that they lead to; those that rows leave are known when it runs."""
    keyed, base = look.moment.keyed, look.moment.main_store[1]
    if keyed is None or not keyed.pending_commits:
        return Would(would="merge nothing: no change is pending", gain=gained(base))
    change = look.moment.metadata[CHANGE]
    pending = [file for file in look.live(change) if file.sequence_number > keyed.watermark]
    partitions = by_partition(change, pending)
    rows = totals(base)["rows"]
    mode = {"auto": "by whatever costs less", "rewrite": "by rewriting", "vectors": "by delete files"}
    return Would(
        would=f"merge {counted(keyed.pending_rows, 'pending row')} of {counted(keyed.pending_commits, 'commit')} into "
        f"a base of {counted(rows, 'row')}, {mode[str(look.task['mode'])]}",
        touches=[
            Touch("pending rows", keyed.pending_rows, keyed.pending_bytes),
            Touch("change files", len(pending), sum(file.size for file in pending)),
            Touch("partitions written to", len(partitions)),
            *largest(partitions),
        ],
        gain=gained(base),
        exact=False,
        notes=["partitions that changed rows leave are found when it runs"],
    )


def clean(look: Look) -> Would:
    """Files of the change store whose rows base contains all."""
    change = look.moment.metadata[CHANGE]
    merged = [file for file in look.live(change) if file.sequence_number <= look.task["through"] and not file.content]
    size = sum(file.size for file in merged)
    return Would(
        would=f"take {counted(len(merged), 'merged file')} out of the change store's current snapshot",
        touches=[Touch("merged files", len(merged), size)],
        gain=gained(change, files=len(merged), bytes=size),
        exact=not look.task["keep_deletes"],
        notes=["those with young deletes stay"] if look.task["keep_deletes"] else [],
    )


def rewrite(look: Look) -> Would:
    """Small files, packed within their partitions where there are enough of them."""
    metadata, task = look.moment.main_store[1], look.task
    files = look.live(metadata)
    data = [file for file in files if not file.content]
    groups = _groups([file for file in data if file.size < task["small_file_size"]], task)
    packed = [file for group in groups for file in group]
    size = sum(file.size for file in packed)
    after = sum(-(-sum(file.size for file in group) // task["target_file_size"]) for group in groups)
    has_deletes = len(data) < len(files)
    return Would(
        would=f"pack {counted(len(packed), 'small file')} of {len(data):,} into about {after:,}",
        touches=[
            Touch("files to rewrite", len(packed), size),
            Touch("files to leave", len(data) - len(packed), sum(file.size for file in data) - size),
            Touch("partitions", len(groups)),
            *largest(by_partition(metadata, packed)),
        ],
        gain=gained(metadata, files=len(packed) - after),
        exact=not has_deletes,
        notes=["rows that delete files take away are not written again"] if has_deletes else [],
    )


def _groups(small: Sequence[ListedFile], task: dict[str, int]) -> list[list[ListedFile]]:
    """As Iceberg's bin-packing chooses: enough files, or enough bytes for a whole one."""
    found: dict[object, list[ListedFile]] = {}
    for file in small:
        found.setdefault((file.spec_id, file.partition), []).append(file)
    return [
        group
        for group in found.values()
        if len(group) >= task["min_files"]
        or (len(group) > 1 and sum(file.size for file in group) > task["target_file_size"])
    ]
