"""Manifests, as dry runs read them: counted first, so that nobody waits for a table of very many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from catalog.files.data_file import PartitionValue
from catalog.iceberg.json import Json
from catalog.locations.location_rule import FileRule


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """One manifest as a snapshot lists it."""

    location: str
    length: int
    files: int | None
    """Live ones; the oldest manifests do not say."""
    listed: Mapping[str, Any]
    """All that the list says, for the reader's own use."""
    has_deletes: bool = False
    """Whether its files are delete files: none is of both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """A live file of a manifest; bounds are of the one column that was asked for, as integers."""

    location: str
    content: int  # 0 data, 1 position deletes or a deletion vector, 2 equality deletes
    size: int
    record_count: int
    partition: tuple[PartitionValue, ...]
    spec_id: int
    sequence_number: int
    lower: int | None = None
    upper: int | None = None
    of: str | None = None
    """The data file whose rows it deletes, where it names one: every deletion vector does."""
    is_vector: bool = False


class ManifestReading(Protocol):
    """NotFound for a file that is gone, Unavailable when the storage does not answer."""

    def confined(self, rule: FileRule) -> ManifestReading:
        """The same, which raises LocationRefused for a manifest or list that the rule's table may not name."""

    def lines(self, metadata: Json, snapshot: Json) -> Sequence[ManifestFile]:
        """The manifests that a snapshot lists."""

    def files(self, metadata: Json, line: ManifestFile, *, bounds_of: int | None = None) -> Iterator[ManifestEntry]:
        """The live files of a manifest."""
