"""Health of a table: the parts of its score."""

from __future__ import annotations

from enum import StrEnum


class HealthPart(StrEnum):
    """What can be wrong with a table."""

    SMALL_FILES = "small-files"
    DELETES = "deletes"
    PENDING = "pending"
    SNAPSHOTS = "snapshots"
    MANIFESTS = "manifests"
    SKEW = "skew"
