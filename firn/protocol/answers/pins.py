"""Answers about pins: both stores of a keyed table at one moment."""

from __future__ import annotations

from firn.protocol.base import Out


class PinnedOut(Out):
    """One pinned store; `table` is the list of the parts of its name."""

    table: list[str]
    snapshot_id: str | None
    schema_id: int


class PinOut(Out):
    """Snapshots of both stores of a keyed table that belong together, and the SQL that merges them."""

    version: int
    primary_key: list[str]
    sequence_field: str | None
    scope: str
    columns: list[str]
    watermark: int
    change_sequence: int
    pending: bool
    base: PinnedOut
    change: PinnedOut
    sql: str
