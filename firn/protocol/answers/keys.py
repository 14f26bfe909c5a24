"""Answers about the uniqueness of a keyed table's keys."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from firn.protocol.base import Out


class RepeatedKeyOut(Out):
    """One key of several rows, and some of the files that hold these rows."""

    key: dict[str, str]
    rows: int
    files: list[str]
    more_files: int


class KeysOut(Out):
    """The result of the last uniqueness check of the base store.

    `keys` keys are duplicate, with `surplus_rows` rows more than keys. Both are 0 after a job that removed duplicates;
    `removed_rows` counts the rows that it removed.  `moved` says that the base store has a newer snapshot.
    """

    job_id: UUID
    checked_at: datetime
    snapshot_id: str | None
    moved: bool
    keys: int
    surplus_rows: int
    removed_rows: int
    sample: list[RepeatedKeyOut]
