"""Reads a few net changes of a keyed table for people: values as text, bounded in rows and characters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.table import StaticTable

from firn.protocol.answers.changes import ChangedRow
from firn.protocol.changes import Each, Images
from firn.protocol.tasks.feed import FeedRows, FeedTask
from firn.scan.changes import AFTER, BEFORE, CHANGE_TYPE, read_feed
from firn.scan.feed_rows import FeedStores
from firn.scan.lineage import SEQUENCE
from firn.scan.newest import number_keys
from optimizer.images.pair import Check, TooLarge

LONGEST_VALUE = 1_000
"""Characters of one value; `cut` names the columns of longer ones."""
_NO_COMMIT = -1


def read_changed_rows(task: FeedTask, check: Check) -> FeedRows:
    """Read the changes of the plan, those of the newest commits first.

    TooLarge if the files are above the limit. What `check` raises ends the task. FirnError as `read_feed` raises it.
    """
    stores = FeedStores(
        base=StaticTable.from_metadata(task.base_metadata, task.file_io),
        change=StaticTable.from_metadata(task.change_metadata, task.file_io),
        plan=task.plan,
        check=check,
        measure=_Budget(task.most_bytes).spend,
    )
    feed = read_feed(stores, images=Images.BOTH, each=Each.NET)
    commits = _find_commits(stores, feed)
    order = np.argsort(-commits, kind="stable")[: task.most_rows]
    ids = {commit.sequence_number: commit.snapshot_id for commit in task.plan.appends}
    rows, left = list[ChangedRow](), task.most_characters
    for place in order.tolist():
        row = _show_row(feed.slice(place, 1).to_pylist()[0], stores.keys, ids.get(int(commits[place])))
        left -= sum(len(text or "") for values in (row.before, row.after) for text in (values or {}).values())
        if rows and left < 0:
            break
        rows.append(row)
    return FeedRows(total=len(feed), rows=rows)


@dataclass
class _Budget:
    """The bytes of data files that may still be read."""

    left: int

    def spend(self, size: int) -> None:
        """Take so many bytes; TooLarge if they are not left."""
        self.left -= size
        if self.left < 0:
            raise TooLarge("the changes, and the files of base that may hold their rows, are too large to be shown")


def _find_commits(stores: FeedStores, feed: pa.Table) -> np.ndarray:
    """For each change the sequence number of the newest commit with a change of its key."""
    if not stores.plan.appends or not len(feed):
        return np.full(len(feed), _NO_COMMIT, np.int64)
    appended = stores.appended
    codes = number_keys([feed.select(stores.keys), appended.select(stores.keys)], stores.keys)
    newest = np.full(codes.max() + 1, _NO_COMMIT, np.int64)
    np.maximum.at(newest, codes[len(feed) :], appended[SEQUENCE].to_numpy())
    of_changes: np.ndarray = newest[codes[: len(feed)]]
    return of_changes


def _show_row(row: Mapping[str, Any], keys: Sequence[str], snapshot_id: str | None) -> ChangedRow:
    before, after = _show_values(row[BEFORE]), _show_values(row[AFTER])
    sides = [side for side in (before, after) if side is not None]
    return ChangedRow(
        change_type=row[CHANGE_TYPE],
        key={name: _cut(show_value(row[name])) for name in keys},
        before=None if before is None else {name: _cut(text) for name, text in before.items()},
        after=None if after is None else {name: _cut(text) for name, text in after.items()},
        columns=[name for name in before if before[name] != after[name]] if before and after else [],
        cut=[name for name in sides[0] if any(len(side[name] or "") > LONGEST_VALUE for side in sides)],
        snapshot_id=snapshot_id,
    )


def _show_values(row: Mapping[str, Any] | None) -> dict[str, str | None] | None:
    return None if row is None else {name: show_value(value) for name, value in row.items()}


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:LONGEST_VALUE]


def show_value(value: Any) -> str | None:
    """A value as people read it: bytes in hexadecimal, nested values as JSON, null as null."""
    if value is None:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, ensure_ascii=False, default=show_value)
    return value.isoformat(" ") if hasattr(value, "hour") and hasattr(value, "year") else str(value)
