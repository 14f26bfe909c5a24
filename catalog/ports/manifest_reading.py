"""The ports to manifests. Dry runs count first, so that no user waits for a table with very many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from catalog.files.manifest_entries import ManifestEntry, ManifestFile
from catalog.iceberg.json import Json
from catalog.locations.location_rule import FileRule


class ManifestReading(Protocol):
    """Reads manifests. NotFound for a missing file, Unavailable if the storage does not answer."""

    def confined(self, rule: FileRule) -> ManifestReading:
        """A reader that raises LocationRefused for a manifest or list that the rule's table may not name."""

    def lines(self, metadata: Json, snapshot: Json) -> Sequence[ManifestFile]:
        """The manifests that a snapshot lists."""

    def files(self, metadata: Json, line: ManifestFile, *, bounds_of: int | None = None) -> Iterator[ManifestEntry]:
        """The live files of a manifest."""


class ColumnSearch(Protocol):
    """Searches manifests for files that lack a column. Failures as of ManifestReading."""

    def confined(self, rule: FileRule) -> ColumnSearch:
        """See ManifestReading."""

    def lines(self, metadata: Json, snapshot: Json) -> Sequence[ManifestFile]:
        """See ManifestReading."""

    def find_missing_column(
        self, metadata: Json, line: ManifestFile, columns: Mapping[int, frozenset[int]]
    ) -> int | None:
        """One of these columns (field ids by spec) for which a data file of the manifest counts no values."""
