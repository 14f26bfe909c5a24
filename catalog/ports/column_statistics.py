"""The port to the statistics of data files in manifests."""

from __future__ import annotations

from typing import Any, Protocol

from catalog.files.column_statistics import StoreCounts
from catalog.iceberg.json import Json
from catalog.locations.location_rule import FileRule


class ColumnStatisticsReading(Protocol):
    """Reads manifests. NotFound for a missing file, Unavailable if the storage does not answer."""

    def confined(self, rule: FileRule) -> ColumnStatisticsReading:
        """A reader that raises LocationRefused for a manifest or list that the rule's table may not name."""

    def format_value(self, kind: str, value: Any) -> str | None:
        """A value of this type as text for people."""

    def find_only_value(self, metadata: Json, snapshot: Json, column: int, *, most_files: int) -> str | None:
        """The only value of a text column in the data files that a snapshot has added.

        None if they have several values, if a file does not tell, or if there are more files than that.
        """

    def add_up(self, metadata: Json, counts: StoreCounts, *, most_files: int, seconds: float) -> None:
        """Add the files of the current snapshot, until there are so many, or until so much time has passed."""
