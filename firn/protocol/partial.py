"""The column of a change store that says which columns a change sets, as server, optimizer and writers know it."""

from __future__ import annotations

SET = "_set"
SET_ID = 10_000_000
"""Far above the ids of real columns, like those of the change store's other own columns."""
