"""The port to manifests for dry runs. They count first, so that no user waits for a table with very many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
