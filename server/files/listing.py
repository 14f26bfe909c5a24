"""What a partition's directory holds.

Hive reads the files of the directory itself.  Files in directories below it are read by some engines and refused by
others, so they are never taken silently: a listing names those directories, and `recursive` looks into them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

from catalog.errors import Denied, NotFound
from catalog.hive.ground import ListedFile, Listing, is_hidden
from server.ahead import in_threads
from server.files.arrow import RemoteDirectories
from server.files.locations import local_path
from server.files.storage import told

_CHUNK = 16
_SKEW_NS = 10 * 10**9
"""How far the clock of another machine may be behind: a listing of its files counts as begun so much earlier."""


class Listings:
    """Lists directories, local ones by the operating system, others by PyArrow.  Safe to share between threads."""

    def __init__(self, properties: dict[str, str] | None = None, *, threads: int = 8) -> None:
        """`properties` are PyIceberg's FileIO properties."""
        self._remote = RemoteDirectories(properties or {})
        self._threads = threads

    def list_all(self, locations: Sequence[str]) -> Iterator[Listing]:
        """Listings of these directories, in their order; Unavailable at the first that cannot be listed."""
        return in_threads(
            lambda some: [self.list(one) for one in some],
            locations,
            threads=self._threads,
            at_once=_CHUNK,
            name="listing",
        )

    def list_all_or_why(self, locations: Sequence[str]) -> Iterator[Listing | Denied]:
        """The same, with directories that may not be listed among the others."""
        return in_threads(
            lambda some: [self._list_or_why(one) for one in some],
            locations,
            threads=self._threads,
            at_once=_CHUNK,
            name="listing",
        )

    def _list_or_why(self, location: str) -> Listing | Denied:
        try:
            return self.list(location)
        except Denied as error:
            return error

    def list(self, location: str, *, recursive: bool = False) -> Listing:
        """Data files in a directory, and with `recursive` in all below it.

        A directory that does not exist holds none, as in Hive.
        """
        path = local_path(location)
        try:
            with told("list", location):
                if path is None:
                    return self._list_remote(location, recursive=recursive)
                return self._list_local(location, path, recursive=recursive)
        except NotFound:
            return Listing(location=location, files=(), began_ns=time.time_ns())

    def modified_ns(self, location: str) -> int | None:
        """When a directory last had a file added, removed or renamed; None where its storage does not say."""
        path = local_path(location)
        try:
            with told("list", location):
                if path is None:
                    return self._remote.modified_ns(location)
                return os.stat(path).st_mtime_ns  # noqa: PTH116 - called once per partition and sync
        except NotFound:
            return None

    def _list_local(self, location: str, path: str, *, recursive: bool) -> Listing:
        began_ns, modified_ns = time.time_ns(), self.modified_ns(location)
        files: list[ListedFile] = []
        below: list[str] = []
        pending = [""]
        while pending:
            prefix = pending.pop()
            with os.scandir(os.path.join(path, prefix)) as entries:  # noqa: PTH118 - a Path per file is slow
                for entry in entries:
                    if is_hidden(entry.name):
                        continue
                    if entry.is_dir():
                        (pending if recursive else below).append(f"{prefix}{entry.name}/")
                    elif found := _local_file(entry, prefix):
                        files.append(found)
        return Listing(
            location=location,
            files=tuple(sorted(files, key=lambda file: file.path)),
            began_ns=began_ns,
            subdirectories=tuple(sorted(name.rstrip("/") for name in below)),
            directory_mtime_ns=modified_ns,
        )

    def _list_remote(self, location: str, *, recursive: bool) -> Listing:
        began_ns, modified_ns = time.time_ns() - _SKEW_NS, self.modified_ns(location)
        files: list[ListedFile] = []
        below: list[str] = []
        for entry in self._remote.entries(location, recursive=recursive):
            if any(map(is_hidden, entry.path.split("/"))):
                continue
            if entry.is_directory:
                below.append(entry.path)
            elif entry.size:
                files.append(ListedFile(path=entry.path, size=entry.size, mtime_ns=entry.mtime_ns or began_ns))
        return Listing(
            location=location,
            files=tuple(sorted(files, key=lambda file: file.path)),
            began_ns=began_ns,
            subdirectories=() if recursive else tuple(sorted(below)),
            directory_mtime_ns=modified_ns,
        )


def _local_file(entry: os.DirEntry[str], prefix: str) -> ListedFile | None:
    """None for a file without bytes, which engines pass over, and for one that went while the directory was read."""
    try:
        stat = entry.stat()
    except FileNotFoundError:
        return None
    if not stat.st_size:
        return None
    return ListedFile(f"{prefix}{entry.name}", stat.st_size, stat.st_mtime_ns, str(stat.st_ino))
