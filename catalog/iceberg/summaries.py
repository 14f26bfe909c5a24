"""Snapshot summaries: the counts that an engine writes into them, read without trust."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HIGHEST_COUNT = 2**53
"""No table holds more, so that sums of many commits' counts still fit into the database's 64 bits."""
TOTALS: Mapping[str, tuple[str, str]] = {
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}
"""The totals of a summary, each with the counts that add to it and subtract from it."""


def read_number(summary: Mapping[str, Any], key: str) -> int:
    """A count out of a snapshot's summary; 0 when an engine left it out or wrote something else."""
    text = str(summary.get(key, "0"))
    if not text.isdecimal():
        return 0
    return HIGHEST_COUNT if len(text) > 19 else min(int(text), HIGHEST_COUNT)
