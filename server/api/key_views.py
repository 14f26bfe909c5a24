"""The last uniqueness check of a keyed table, as the management API shows it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from uuid import UUID

from catalog.keyed.uniqueness import Uniqueness
from server.api.deps import Out


class RepeatedKeyOut(Out):
    """One key of several rows, and some of the files that hold these rows."""

    key: dict[str, str]
    rows: int
    files: list[str]
    more_files: int


class KeysOut(Out):
    """The result of the last uniqueness check of the base store.

    `keys` keys are duplicate, with `surplus_rows` rows too many.  Both are 0 after a job that removed duplicates;
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

    @classmethod
    def of(cls, uniqueness: Uniqueness) -> KeysOut:
        """Build the answer from a check. Snapshot ids are text because they exceed the integers of JavaScript."""
        snapshot_id = None if uniqueness.snapshot_id is None else str(uniqueness.snapshot_id)
        return cls.model_validate(asdict(uniqueness) | {"snapshot_id": snapshot_id})
