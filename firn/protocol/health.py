"""Health of a table: the parts of its score."""

from __future__ import annotations

from enum import StrEnum


class HealthPart(StrEnum):
    """A problem that lowers the score of a table."""

    SMALL_FILES = "small-files"
    DELETES = "deletes"
    PENDING = "pending"
    SNAPSHOTS = "snapshots"
    MANIFESTS = "manifests"
    SKEW = "skew"
