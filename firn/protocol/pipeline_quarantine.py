"""The quarantine of a pipeline's table: an Iceberg table with the rows that its validators have dropped."""

from __future__ import annotations

from collections.abc import Sequence

from firn.protocol.names import join_name, split_name

SUFFIX = "_quarantine"
COLUMNS: Sequence[tuple[str, str]] = (
    ("run", "string"),
    ("at", "timestamp"),
    ("rules", "array<string>"),
    ("row", "string"),
)
"""The columns, with their types in Spark: the id of the run, the time of its pins, the names of the validators that the
row violates, and the row as JSON. So the table keeps its columns whatever the query gives.
"""


def name_quarantine(table: str) -> str:
    """The name of the quarantine of a table, beside it in its namespace."""
    *namespace, name = split_name(table)
    return join_name([*namespace, f"{name}{SUFFIX}"])
