"""What merges, cleans and counts of keys would do."""

from __future__ import annotations

from catalog.keyed.spec import CHANGE
from catalog.planning.need import counted
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


def keys(look: Look) -> Would:
    """All rows are read for their keys; how many of these occur more than once is known when it runs."""
    base = look.moment.main_store[1]
    now = totals(base)
    over = f"the keys of {counted(now['rows'], 'row')}"
    resolves = look.task["resolves"]
    return Would(
        would=f"count {over}, and keep one row of each that occurs more than once" if resolves else f"count {over}",
        touches=[Touch("files to read", now["files"], now["bytes"])],
        gain=gained(base),
        exact=not resolves,
        notes=["how many rows leave is known when it runs"] if resolves else ["only the key columns are read"],
    )
