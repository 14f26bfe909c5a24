"""The summary of a snapshot: its changes, and the totals after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from catalog.history.table_stats import add_totals
from catalog.iceberg.json import Json


@dataclass(slots=True)
class Changes:
    """Counts of the files that a snapshot adds and removes, by their names in the summary."""

    counts: dict[str, int] = field(default_factory=dict)
    partitions: set[tuple[Any, ...]] = field(default_factory=set)

    def add(self, file: Mapping[str, Any]) -> None:
        """Count an added data file or delete file."""
        if file["content"]:
            self._count("added-delete-files", 1)
            self._count("added-dvs" if file["file_format"] == "PUFFIN" else "added-position-delete-files", 1)
            self._count("added-position-deletes", file["record_count"])
        else:
            self._count("added-data-files", 1)
            self._count("added-records", file["record_count"])
        self._count("added-files-size", file.get("content_size_in_bytes") or file["file_size_in_bytes"])
        self.partitions.add(tuple(file["partition"].values()))

    def remove(self, file: Mapping[str, Any]) -> None:
        """Count a removed data file or delete file."""
        if file["content"]:
            self._count("removed-delete-files", 1)
            self._count("removed-dvs" if file["file_format"] == "PUFFIN" else "removed-position-delete-files", 1)
            self._count("removed-position-deletes", file["record_count"])
        else:
            self._count("deleted-data-files", 1)
            self._count("deleted-records", file["record_count"])
        self._count("removed-files-size", file.get("content_size_in_bytes") or file["file_size_in_bytes"])
        self.partitions.add(tuple(file["partition"].values()))

    @property
    def operation(self) -> str:
        """The operation of the snapshot in Iceberg's terms."""
        if not self.counts.keys() & {"deleted-data-files", "added-delete-files"}:
            return "append"
        return "overwrite" if "added-data-files" in self.counts else "delete"

    def _count(self, name: str, by: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + by


def build_summary(changes: Changes, parent: Json | None) -> dict[str, str]:
    """Build the summary of a snapshot after `parent`; totals that the parent lacks stay absent."""
    counts = {name: str(count) for name, count in changes.counts.items()}
    partitions = {"changed-partition-count": str(len(changes.partitions))}
    return {"operation": changes.operation, **counts, **partitions, **add_totals(counts, parent)}
