"""New rows of streams: what the mode `append` reads of an input.

A changed or deleted row of a stream would change rows that were appended before, so it fails the run. With
`skip_changes` the run leaves it out. Of a keyed table it leaves out the keys that the table had before. A table without
keys does not tell whether a row is new or changed; there it leaves out commits that do more than append.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.names import format_sql_name, quote_name
from firn.protocol.pipeline_outputs import StreamInput
from optimizer.errors import Refused
from optimizer.pipelines.inputs import KeyedInput, PinnedInput, PlainInput
from optimizer.pipelines.snapshots import load_iceberg_table

_APPEND = "append"
_SHOWN_ROWS = 2


def read_new_rows(stream: StreamInput, pinned: PinnedInput, columns: Sequence[str]) -> DataFrame:
    """The rows that a stream has gained between its pins, by these columns.

    Raises Refused if rows were changed or deleted and the owner has not said `skip_changes`, or if the rows cannot be
    told any more.
    """
    if (obstacle := pinned.find_obstacle(columns)) is not None:
        raise Refused(f"{obstacle}, so the new rows of {stream.table} cannot be told. {_REPLACE}")
    if not stream.skip_changes:
        changed = pinned.read_changed(columns)
        _refuse_changed(stream.table, changed.before)
        return changed.after
    if isinstance(pinned, KeyedInput):
        return pinned.read_new_keys(columns)
    assert isinstance(pinned, PlainInput)  # noqa: S101 -- tells the type checker that there are two kinds
    return _read_appends(pinned, columns)


_REPLACE = "`firn pipeline run --full` computes the table again from all rows that its inputs have now"


def _refuse_changed(name: str, before: DataFrame) -> None:
    rows = before.limit(_SHOWN_ROWS).collect()
    if rows:
        shown = "; ".join(", ".join(f"{key}={value!r}" for key, value in row.asDict().items()) for row in rows)
        raise Refused(
            f"rows of the stream {name} were changed or deleted since the last run, such as {shown[:500]}. Nothing was "
            f"committed. Say skip_changes: true to leave such rows out. {_REPLACE}"
        )


def _read_appends(pinned: PlainInput, columns: Sequence[str]) -> DataFrame:
    """The rows of the commits between the pins that only append."""
    spark, parts, names = pinned.lake.spark, pinned.lake.parts(pinned.name), [*map(quote_name, columns)]
    if pinned.until is None or pinned.since == pinned.until:
        return pinned.read_new().where(F.lit(False)).select(*names)
    path = _list_path(load_iceberg_table(spark, parts), pinned.since, pinned.until)
    first, start = path[-1], pinned.since or str(path[-1].snapshotId())
    # Iceberg reads only commits of the kind `append` in a range, which begins after a snapshot.
    reader = spark.read.format("iceberg").option("start-snapshot-id", start).option("end-snapshot-id", pinned.until)
    frames = [] if start == pinned.until else [reader.load(format_sql_name(parts)).select(*names)]
    if pinned.since is None and first.operation() == _APPEND:
        frames.append(spark.read.option("versionAsOf", start).table(format_sql_name(parts)).select(*names))
    return reduce(DataFrame.unionByName, frames, pinned.read_new().where(F.lit(False)).select(*names))


def _list_path(table: Any, since: str | None, until: str) -> list[Any]:
    """The snapshots from `until` back to the one after `since`. Raises Refused if expiry has removed one of them."""
    path = [table.snapshot(int(until))]
    while path[-1] is not None and (parent := path[-1].parentId()) is not None and str(parent) != since:
        path.append(table.snapshot(parent))
    if path[-1] is None or (since is not None and path[-1].parentId() is None):
        raise Refused(
            f"{table.name()} no longer has all snapshots since the last run, so the rows that were appended cannot be "
            f"told from changed ones. {_REPLACE}"
        )
    return path
