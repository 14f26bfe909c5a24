"""How a conversion fills its table, as the commit is judged: once, an empty table, with every row that was read."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.errors import CommitRefused
from catalog.iceberg.json import Json
from catalog.iceberg.summaries import read_number
from catalog.iceberg.table import current_snapshot

CONVERTED_FROM = "firn.converted-from"
"""Property of a table: the Hive table whose rows Spark has read and written anew. It does not follow that one."""
ROWS_READ = "firn.rows-read"
"""In the snapshot's summary: how many rows were counted in the Hive table before."""
WRITER = "firn-hive-convert"


def is_converted(metadata: Json) -> bool:
    """Whether anything was ever written to the table."""
    return current_snapshot(metadata) is not None or bool(metadata.get("snapshots"))


def check_conversion_commit(metadata: Json, updates: Sequence[Json], beside: Sequence[Json] = ()) -> None:
    """CommitRefused unless the updates put exactly the rows that were counted into a table that has none.

    `beside` are other stores of the table, which have to be empty too.
    """
    added = [update["snapshot"] for update in updates if update.get("action") == "add-snapshot"]
    if len(added) != 1 or added[0].get("summary", {}).get("operation") != "append":
        raise CommitRefused("the commit of a conversion must be one append")
    if any(map(is_converted, (metadata, *beside))):
        raise CommitRefused(
            "somebody has written to the table meanwhile: a conversion fills an empty one",
            hint="drop the table and convert again, or convert under another name",
        )
    summary = added[0]["summary"]
    read, written = summary.get(ROWS_READ), read_number(summary, "added-records")
    if read != str(written):
        raise CommitRefused(
            f"the job counted {read} rows in the Hive table and wrote {written}: somebody writes to the Hive table",
            hint="convert again when its writers pause",
        )
