"""What manifests say of files: a manifest in a snapshot's list, a live file in a manifest, new deletes of a commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catalog.files.data_file import PartitionValue


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDeletes:
    """Which delete files a snapshot adds to the table, by its manifests and not by what its summary says."""

    positions: bool = False
    """Position deletes, deletion vectors among them."""
    equality: bool = False


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
