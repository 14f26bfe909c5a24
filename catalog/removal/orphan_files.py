"""Orphans: files at a table's place that nothing needs. What is taken for one, and what becomes of it.

A file that is kept by mistake costs space, one that is taken by mistake costs data: every rule here leans to one side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self
from urllib.parse import unquote
from uuid import UUID

from catalog.commits.commit_rules import OLDEST_LEASE
from catalog.iceberg.json import Json
from catalog.jobs.job import JobId
from catalog.names import CatalogName, RelationId
from firn.protocol.locations import lies_in, normalize_location
from firn.protocol.orphans import BatchState

BATCH = 200
"""Files that one report names, and that are moved while nobody can add a table or end the lease."""
_HINTS = frozenset({"version-hint.text"})
"""Files that some engines find the current metadata by, and that no metadata names."""
METADATA_SUFFIXES = (".metadata.json", ".metadata.json.gz")


class KeepReason(StrEnum):
    """Why a file that was proposed is kept."""

    GONE = "gone"
    ELSEWHERE = "not at the table's place"
    AGE_UNKNOWN = "age unknown"
    YOUNG = "young"
    NEEDED = "needed"
    PUT_BACK = "put back before"
    NOTED = "noted already"
    IN_HIVE = "Hive may read it"
    HIVE_UNKNOWN = "not known whether Hive reads it"


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file as its store shows it; None for a time that it does not tell."""

    location: str
    bytes: int
    modified_at: datetime | None

    def same_as(self, other: SeenFile) -> bool:
        """Whether both are the same file for all that a store tells."""
        return (self.bytes, self.modified_at) == (other.bytes, other.modified_at)


@dataclass(frozen=True, slots=True)
class ReportedFile:
    """One line of a report. `aside` is where it is moved to, None where the store cannot rename."""

    file: SeenFile
    aside: str | None

    def to_json(self) -> Json:
        """As the report holds it."""
        at = None if self.file.modified_at is None else self.file.modified_at.isoformat()
        return {"path": self.file.location, "bytes": self.file.bytes, "modified": at, "aside": self.aside}

    @classmethod
    def from_json(cls, line: Json) -> Self:
        """Out of a report."""
        at = None if line["modified"] is None else datetime.fromisoformat(line["modified"])
        return cls(SeenFile(line["path"], line["bytes"], at), line["aside"])


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanBatch:
    """Some files that one job has taken for orphans. Their names are in the report, a file of the quarantine."""

    id: UUID
    catalog: CatalogName
    relation_id: RelationId
    job_id: JobId
    state: BatchState
    report: str
    files: int
    bytes: int
    taken_at: datetime
    kept: tuple[str, ...] = ()
    """Those of its files that were put back, or turned out to be needed: they are not taken again."""
    deleted_by: JobId | None = None
    deleted_at: datetime | None = None


def compute_cutoff(now: datetime, store_now: datetime, lease_began: datetime, min_age: timedelta) -> datetime:
    """The moment before which a file must have been changed last: by the clock that makes it youngest.

    Whatever age a policy has come to, it is never shorter than twice that of the oldest lease that may commit.
    """
    age = max(min_age, 2 * OLDEST_LEASE)
    return min(now - age, store_now - age, lease_began)


def find_keep_reason(file: SeenFile | None, places: Iterable[str], before: datetime) -> KeepReason | None:
    """Why a file is kept whatever the table needs; `places` are canonical. None when only that is left to be seen."""
    if file is None:
        return KeepReason.GONE
    found = normalize_location(file.location)
    if not any(lies_in(found, place) and found != place for place in places):
        return KeepReason.ELSEWHERE
    if file.modified_at is None or file.modified_at.timestamp() <= 0:
        return KeepReason.AGE_UNKNOWN
    if file.modified_at >= before:
        return KeepReason.YOUNG
    return KeepReason.NEEDED if list_names(file.location) & _HINTS else None


def list_names(location: str) -> set[str]:
    """What files are compared by: the last part of the path, in one case, as it is written and percent-decoded.

    Engines give every file a name of its own. So the same file is found under any scheme, host, mount, link, slash or
    encoding; and of two that share a name neither is taken while one of them is needed.
    """
    written = location.rstrip("/").rpartition("/")[2]
    return {written.casefold(), unquote(written).casefold()}


def is_metadata(location: str) -> bool:
    """Whether a file is some table's metadata, by its name."""
    return any(name.endswith(METADATA_SUFFIXES) for name in list_names(location))


def split_batches(files: Sequence[SeenFile]) -> list[Sequence[SeenFile]]:
    """In batches."""
    return [files[at : at + BATCH] for at in range(0, len(files), BATCH)]
