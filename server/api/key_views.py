"""What is known of a keyed table's keys, as the management API shows it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from uuid import UUID

from catalog.keyed.uniqueness import Uniqueness
from server.api.deps import Out


class RepeatedKeyOut(Out):
    """One key that more than one row has, and some of the files in which these rows lie."""

    key: dict[str, str]
    rows: int
    files: list[str]
    more_files: int


class KeysOut(Out):
    """What the last count of all keys in base has found.

    `keys` occur more than once, with `surplus_rows` rows too many; none where a job has made them one row each, which
    took `removed_rows` away. `moved` says that base has another snapshot since.
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
    def of(cls, found: Uniqueness) -> KeysOut:
        """Snapshot ids are text: JavaScript's numbers are too small for them."""
        snapshot_id = None if found.snapshot_id is None else str(found.snapshot_id)
        return cls.model_validate(asdict(found) | {"snapshot_id": snapshot_id})
