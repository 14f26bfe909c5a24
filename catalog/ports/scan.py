"""Ports of scan planning: manifests, and the database's scan plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from catalog.iceberg.json import Json
from catalog.locations.location_rule import FileRule
from catalog.scan.deletes import DeleteFile
from catalog.scan.expression import TRUE, Expression
from catalog.scan.plan import ManifestSize, PlanId, ScanPlan, Task
from catalog.scan.scan import Scan


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask:
    """One data file to read, as clients get it, with its deletes and its residual filter."""

    content: Json
    rows: int
    deletes: Sequence[DeleteFile]
    residual: Expression

    @property
    def certain_rows(self) -> int:
        """Rows that are certainly in the scan's result."""
        return self.rows if self.residual == TRUE and not self.deletes else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A data file whose rows may differ between two snapshots: None on the side that does not have it.

    A file on both sides has other deletes.
    """

    before: FileTask | None
    after: FileTask | None


class ScanFiles(Protocol):
    """Reads manifests for a scan.

    `rule` decides which files the table may name. All methods raise LocationRefused for others, Invalid if a literal
    of the filter does not fit its column, NotFound if a needed file is missing, and Unavailable if it cannot be read.
    """

    def sizes(self, scan: Scan, rule: FileRule) -> Sequence[ManifestSize]:
        """The manifests that may list a file with rows for the scan."""

    def tasks(self, scan: Scan, task: Task, rule: FileRule) -> Iterator[FileTask]:
        """The files of these slices that may hold a row for the scan, in the order of the manifests."""

    def changes(self, before: Scan, after: Scan, rule: FileRule) -> Iterator[FileChange]:
        """The files that one of two scans of a table reads and the other does not, or reads with other deletes.

        Raises Invalid, too, if that needs more files in memory than the server allows.
        """


class Plans(Protocol):
    """Scan plans; clients fetch their tasks."""

    def add(self, plan: ScanPlan) -> None: ...
    def find(self, plan_id: PlanId) -> ScanPlan | None:
        """The plan, even if it has expired or is cancelled."""

    def cancel(self, plan_id: PlanId) -> None: ...
    def remove_expired(self, now: datetime) -> int:
        """Delete expired plans; returns their number."""
