"""Entries of manifest lists and manifests: a manifest, a live file, and the new deletes of a commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catalog.files.data_file import PartitionValue


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDeletes:
    """The kinds of delete files that a snapshot adds, by its manifests and not by its summary."""

    positions: bool = False
    """Position deletes, including deletion vectors."""
    equality: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """One manifest in a snapshot's manifest list."""

    location: str
    length: int
    files: int | None
    """The number of live files; the oldest manifests do not give it."""
    record: Mapping[str, Any]
    """The whole entry of the list, for the reader's own use."""
    has_deletes: bool = False
    """Whether its files are delete files. No manifest has both kinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """A live file of a manifest. Bounds are those of one requested column, as integers."""

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
    """The data file whose rows it deletes; None if it names none. Every deletion vector names one."""
    is_vector: bool = False
