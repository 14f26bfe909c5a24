"""Files of the warehouse, seen by the services."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from catalog.errors import Denied
from catalog.files.data_file import AddSnapshot, DataFileEntry, FileFormat, FileStats, LiveFile, Unreadable
from catalog.hive.baseline import Listing
from catalog.iceberg.json import Json
from catalog.locations.links import Links


class Files(Links, Protocol):
    """Bytes by location (`file:`, `s3:`, `hdfs:` or a plain path)."""

    def read(self, location: str, at_most: int | None = None) -> bytes:
        """The whole file; NotFound when it is not there, Unavailable when the store does not answer.

        Invalid, and nothing is read, when it is larger than `at_most`, or is no regular file.
        """

    def write_new(self, location: str, data: bytes) -> None:
        """Create the file whole or not at all; Conflict when it exists, Unavailable when it cannot be written."""

    def make_directory(self, location: str) -> None:
        """Make it with all above it where the store has directories; Unavailable when it cannot be made."""

    def delete(self, location: str) -> None:
        """Remove the file; nothing happens when it is not there."""

    def exists(self, location: str) -> bool: ...

    def was_there_lately(self, location: str) -> bool:
        """Whether it exists, or did when somebody last looked, at most a minute ago."""


class TableFiles(Protocol):
    """Data files and manifests, without Spark."""

    def listings(self, locations: Sequence[str], *, recursive: bool = False) -> Iterator[Listing]:
        """The files in each directory, and with `recursive` those below it; one that does not exist is empty, as it is
        for Hive.
        """

    def listings_or_why(self, locations: Sequence[str], *, recursive: bool = False) -> Iterator[Listing | Denied]:
        """The same, with directories that may not be listed among the others."""

    def listing_below(self, location: str) -> Listing:
        """The files in a directory and all directories below it."""

    def modified_ns(self, location: str) -> int | None:
        """When a directory last had a file added, removed or renamed; None where its storage does not say.

        NO_DIRECTORY_NS where there is none.
        """

    def footers(
        self,
        schema: Json,
        locations: Iterable[str],
        formats: Mapping[str, FileFormat] | None = None,
        *,
        nulls_of: Collection[int] = (),
    ) -> Iterator[FileStats]:
        """What files say of themselves, in the order asked; Invalid names a file that is damaged.

        They are read a little ahead of whoever takes them: there may be more than fit into memory. `formats` names
        those that are not Parquet; it need not know a file before its location is taken, nor once its statistics are.
        Nulls of the columns `nulls_of` (field ids) are counted by reading rows where a format does not count them.
        """

    def examined(
        self,
        schema: Json,
        locations: Iterable[str],
        formats: Mapping[str, FileFormat] | None = None,
        *,
        nulls_of: Collection[int] = (),
    ) -> Iterator[FileStats | Unreadable]:
        """The same, with files that cannot be read among the others; Unavailable when the storage does not answer."""

    def digests(self, locations: Sequence[str]) -> Iterator[int | None]:
        """What the files are known again by when they were moved (`FileStats.digest`), in the order asked.

        None for one that is gone or may not be read; Unavailable when the storage does not answer.
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
        """Write the manifests of a child of main's head; what it wrote is in the answer, for a refused commit.

        Added files are written down as they come, and best come in the order of their partitions.
        """

    def live_files(self, metadata: Json) -> Iterator[LiveFile]:
        """All data and delete files of main's head."""

    def delete(self, location: str) -> None:
        """Remove one file that nothing refers to; nothing happens when it is not there."""

    def delete_directory(self, location: str) -> None:
        """Remove a directory of Firn's own that nothing refers to, and all in it; fine when it is not there."""
