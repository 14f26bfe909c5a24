"""Orphans: files at a table's location that nothing needs. Rules to detect them, and the states of their removal.

A file that is kept by mistake costs space; a file that is removed by mistake costs data. So every doubt keeps the
file.
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
"""The number of files in one report. The server moves them while nobody can add a table or end the lease."""
_HINTS = frozenset({"version-hint.text"})
"""Files by which some engines find the current metadata. No metadata names them."""
METADATA_SUFFIXES = (".metadata.json", ".metadata.json.gz")


class KeepReason(StrEnum):
    """Why a proposed file is kept."""

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
    """A file as its store describes it; `modified_at` is None if the store gives no time."""

    location: str
    bytes: int
    modified_at: datetime | None

    def same_as(self, other: SeenFile) -> bool:
        """Whether both are the same file, as far as the store can tell."""
        return (self.bytes, self.modified_at) == (other.bytes, other.modified_at)


@dataclass(frozen=True, slots=True)
class ReportedFile:
    """One line of a report. `aside` is the quarantined location; None if the store cannot rename."""

    file: SeenFile
    aside: str | None

    def to_json(self) -> Json:
        """The line as the report stores it."""
        at = None if self.file.modified_at is None else self.file.modified_at.isoformat()
        return {"path": self.file.location, "bytes": self.file.bytes, "modified": at, "aside": self.aside}

    @classmethod
    def from_json(cls, line: Json) -> Self:
        """The file from a line of a report."""
        at = None if line["modified"] is None else datetime.fromisoformat(line["modified"])
        return cls(SeenFile(line["path"], line["bytes"], at), line["aside"])


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanBatch:
    """Orphans of one job. The report, a file in the quarantine, holds their names."""

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
    """Files that were restored, or turned out to be needed. Later jobs keep them."""
    deleted_by: JobId | None = None
    deleted_at: datetime | None = None


def compute_cutoff(now: datetime, store_now: datetime, lease_began: datetime, min_age: timedelta) -> datetime:
    """A file must be older than this moment; of several clocks, the one that makes the file youngest counts.

    The age is at least twice that of the oldest lease that may commit, whatever the policy says.
    """
    age = max(min_age, 2 * OLDEST_LEASE)
    return min(now - age, store_now - age, lease_began)


def find_keep_reason(file: SeenFile | None, directories: Iterable[str], before: datetime) -> KeepReason | None:
    """Why a file is kept regardless of the table's needs; None if only these remain to be checked.

    `places` are canonical.
    """
    if file is None:
        return KeepReason.GONE
    location = normalize_location(file.location)
    if not any(lies_in(location, directory) and location != directory for directory in directories):
        return KeepReason.ELSEWHERE
    if file.modified_at is None or file.modified_at.timestamp() <= 0:
        return KeepReason.AGE_UNKNOWN
    if file.modified_at >= before:
        return KeepReason.YOUNG
    return KeepReason.NEEDED if list_names(file.location) & _HINTS else None


def list_names(location: str) -> set[str]:
    """The names that files are compared by: the last part of the path in lower case, as written and percent-decoded.

    Engines give every file a unique name. So the same file matches under any scheme, host, mount, link, slash or
    encoding. Of two files with one name, both are kept while one is needed.
    """
    written = location.rstrip("/").rpartition("/")[2]
    return {written.casefold(), unquote(written).casefold()}


def is_metadata(location: str) -> bool:
    """Whether a file is a table's metadata file, by its name."""
    return any(name.endswith(METADATA_SUFFIXES) for name in list_names(location))


def split_batches(files: Sequence[SeenFile]) -> list[Sequence[SeenFile]]:
    """The files in batches of at most BATCH."""
    return [files[at : at + BATCH] for at in range(0, len(files), BATCH)]
