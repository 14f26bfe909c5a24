"""The replay of a rebuild: the location of all changes of a keyed table, and the SQL that applies them to a new
baseline.

The SQL is that of every merge, over two views that the optimizer creates: the baseline in place of base, and the whole
change history above a watermark of 0. So a rebuilt partition equals a merged one.
"""

from __future__ import annotations

from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot, ref_snapshot_id, sequence_number, snapshot_by_id
from catalog.keyed.merge_task import columns_of
from catalog.keyed.partial import read_folding
from catalog.keyed.spec import BASE, CHANGE, KeyedTable
from catalog.keyed.view_sql import Pair, build_effective_sql, build_merged_sql, name_pinned_view
from catalog.names import TableName
from firn.protocol.tasks.sync import Replay

BASELINE = "firn_ground"
HISTORY = "firn_history"


def build_replay_task(keyed: KeyedTable, name: TableName, base: Json, change: Json) -> Replay:
    """The facts of a replay; both metadata and `keyed` are of one moment.

    `is_whole` is False if the change store's history lacks a snapshot. Then no replay is possible.
    """
    first, is_whole = _find_first(change)
    pair = Pair(
        spec=keyed.spec,
        columns=columns_of(base),
        base=BASELINE,
        change=HISTORY,
        watermark=0,
        pending=True,
        # A linked table has none: the history that the optimizer makes has no column `_set`, so the SQL would fail.
        folding=read_folding(base, change),
    )
    return Replay(
        base=_name_pinned(name, BASE, base, ref_snapshot_id(base, "main")),
        first=None if first is None else _name_pinned(name, CHANGE, change, first["snapshot-id"]),
        first_id=None if first is None else first["snapshot-id"],
        last_id=ref_snapshot_id(change, "main"),
        is_whole=is_whole,
        baseline=BASELINE,
        history=HISTORY,
        sql={"merged": build_merged_sql(pair), "effective": build_effective_sql(pair)},
    )


def read_replay_end(change: Json) -> int:
    """The watermark after a rebuild, which merges all changes, pending or not."""
    head = current_snapshot(change)
    return 0 if head is None else sequence_number(head)


def _find_first(change: Json) -> tuple[Json | None, bool]:
    """The oldest snapshot reachable from the head, and whether it has no parent."""
    snapshot = current_snapshot(change)
    while snapshot is not None:
        parent_id = snapshot.get("parent-snapshot-id")
        parent = None if parent_id is None else snapshot_by_id(change, parent_id)
        if parent is None:
            return snapshot, parent_id is None
        snapshot = parent
    return None, True


def _name_pinned(name: TableName, store: str, metadata: Json, snapshot_id: int | None) -> list[str]:
    return [*name.as_namespace, name_pinned_view(store, snapshot_id, metadata["current-schema-id"])]
