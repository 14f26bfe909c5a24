"""Ports to files of the warehouse."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from catalog.errors import Denied
from catalog.files.data_file import AddSnapshot, DataFileEntry, FileFormat, FileStats, LiveFile, Unreadable
from catalog.hive.listing import Listing
from catalog.iceberg.json import Json
from catalog.locations.links import Links


class Files(Links, Protocol):
    """Bytes by location (`file:`, `s3:`, `hdfs:` or a plain path)."""

    def read(self, location: str, at_most: int | None = None) -> bytes:
        """The file's bytes; NotFound if it is missing, Unavailable if the store does not answer.

        Invalid, before reading, for a file larger than `at_most`, or one that is no regular file.
        """

    def write_new(self, location: str, data: bytes) -> None:
        """Create the file completely or not at all; Conflict if it exists, Unavailable if it cannot be written."""

    def make_directory(self, location: str) -> None:
        """Create the directory and its parents, where the store has directories; Unavailable if that fails."""

    def delete(self, location: str) -> None:
        """Delete the file; a missing one is ignored."""

    def exists(self, location: str) -> bool: ...

    def was_there_lately(self, location: str) -> bool:
        """Whether the file exists, or existed at the last check at most a minute ago."""


class TableFiles(Protocol):
    """Data files and manifests, read without Spark."""

    def listings(self, locations: Sequence[str], *, recursive: bool = False) -> Iterator[Listing]:
        """The files in each directory, with `recursive` also those below it. A missing directory is empty, as for
        Hive.
        """

    def listings_or_why(self, locations: Sequence[str], *, recursive: bool = False) -> Iterator[Listing | Denied]:
        """The same listings, with a Denied for each directory that may not be listed."""

    def listing_below(self, location: str) -> Listing:
        """The files in a directory and in all directories below it."""

    def modified_ns(self, location: str) -> int | None:
        """When a file was last added, removed or renamed in a directory; None if the storage does not say.

        NO_DIRECTORY_NS for a missing directory.
        """

    def footers(
        self,
        schema: Json,
        locations: Iterable[str],
        formats: Mapping[str, FileFormat] | None = None,
        *,
        nulls_of: Collection[int] = (),
    ) -> Iterator[FileStats]:
        """The statistics of files, in the order asked; Invalid names a damaged file.

        The iterator reads a little ahead, because there may be more files than fit into memory. `formats` names files
        that are not Parquet. It must know a file only from the time its location is taken until its statistics are.
        For the columns `nulls_of` (field ids), nulls are counted by reading rows where a format does not count them.
        """

    def examined(
        self,
        schema: Json,
        locations: Iterable[str],
        formats: Mapping[str, FileFormat] | None = None,
        *,
        nulls_of: Collection[int] = (),
    ) -> Iterator[FileStats | Unreadable]:
        """The same statistics, with an Unreadable for each file that cannot be read; Unavailable if the storage does
        not answer.
        """

    def digests(self, locations: Sequence[str]) -> Iterator[int | None]:
        """Digests that identify moved files (`FileStats.digest`), in the order asked.

        None for a file that is missing or may not be read; Unavailable if the storage does not answer.
        """

    def write_snapshot(
        self,
        metadata: Json,
        added: Iterable[DataFileEntry],
        removed: Collection[str],
        *,
        snapshot_id: int,
        now_ms: int,
        summary_extra: Mapping[str, str] | None = None,
    ) -> AddSnapshot:
        """Write the manifests of a child of main's head. The result lists the written files, so that a refused commit
        can delete them.

        Added files are written as they come, best in the order of their partitions.
        """

    def live_files(self, metadata: Json) -> Iterator[LiveFile]:
        """All data and delete files of main's head."""

    def delete(self, location: str) -> None:
        """Delete a file that nothing refers to; a missing one is ignored."""

    def delete_directory(self, location: str) -> None:
        """Delete a directory of Firn's own with its contents, if nothing refers to it; a missing one is ignored."""
