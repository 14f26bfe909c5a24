"""What scan planning needs of manifests."""

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
    """One data file to read: as clients are told of it, with what is deleted from it and what is left to filter."""

    content: Json
    rows: int
    deletes: Sequence[DeleteFile]
    residual: Expression

    @property
    def certain_rows(self) -> int:
        """Rows that are certainly in the scan's result."""
        return self.rows if self.residual == TRUE and not self.deletes else 0


class ScanFiles(Protocol):
    """Manifests, read for a scan.

    `rule` says which files the table may name. Both raise LocationRefused for one that it may not, Invalid when the
    filter has a literal that is no value of its column, NotFound when a file that the scan needs is gone and
    Unavailable when it cannot be read.
    """

    def sizes(self, scan: Scan, rule: FileRule) -> Sequence[ManifestSize]:
        """The manifests that may list a file with rows for the scan."""

    def tasks(self, scan: Scan, task: Task, rule: FileRule) -> Iterator[FileTask]:
        """The files of these slices that may hold a row for the scan, in the order of the manifests."""


class Plans(Protocol):
    """Plans of scans whose tasks clients fetch."""

    def add(self, plan: ScanPlan) -> None: ...
    def find(self, plan_id: PlanId) -> ScanPlan | None:
        """Also one that has expired or is cancelled."""

    def cancel(self, plan_id: PlanId) -> None: ...
    def remove_expired(self, now: datetime) -> int:
        """Forget them; how many."""
