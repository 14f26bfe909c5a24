"""Answers about imports: one entry for each table, view or namespace."""

from __future__ import annotations

from firn.protocol.base import Open, Out
from firn.protocol.imports import EntryKind, EntryState


class EntryOut(Out):
    """One namespace, table or view of an import, and its result."""

    kind: Open[EntryKind]
    name: str
    source: str
    state: Open[EntryState]
    metadata_location: str | None
    table_uuid: str | None
    location: str | None
    reason: str | None
    hint: str | None
    warnings: list[str]
