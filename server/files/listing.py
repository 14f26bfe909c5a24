"""What a partition's directory holds.

Hive reads the files of the directory itself.  Files in directories below it are read by some engines and refused by
others, so they are never taken silently: a listing names those directories, and `recursive` looks into them, at every
level but below hidden names.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from catalog.errors import Denied, NotFound, Unavailable
from catalog.hive.baseline import NO_DIRECTORY_NS, ListedFile, Listing, Subdirectory, is_hidden
from catalog.hive.unfinished_writes import is_unfinished_work, may_be_going_on
from server.files.arrow import RemoteDirectories, RemoteEntry, has_times
from server.files.deadlines import Deadlines
from server.files.locations import local_path
from server.files.storage import told
from server.prefetch import run_in_threads

_CHUNK = 16
_TRIES = 3
_SKEW_NS = 10 * 10**9
"""How far the clock of another machine may be behind: a listing of its files counts as begun so much earlier."""


class Listings:
    """Lists directories, local ones by the operating system, others by PyArrow.  Safe to share between threads."""

    def __init__(
        self, properties: dict[str, str] | None = None, *, threads: int = 8, deadlines: Deadlines | None = None
    ) -> None:
        """`properties` are PyIceberg's FileIO properties."""
        self._remote = RemoteDirectories(properties or {}, deadlines)
        self._threads = threads

    def list_all(self, locations: Sequence[str], *, recursive: bool = False) -> Iterator[Listing]:
        """Listings of these directories, in their order; Unavailable at the first that cannot be listed."""
        return run_in_threads(
            lambda some: [self.list(one, recursive=recursive) for one in some],
            locations,
            threads=self._threads,
            at_once=_CHUNK,
            name="listing",
        )

    def list_all_or_why(self, locations: Sequence[str], *, recursive: bool = False) -> Iterator[Listing | Denied]:
        """The same, with directories that may not be listed among the others."""
        return run_in_threads(
            lambda some: [self._list_or_why(one, recursive=recursive) for one in some],
            locations,
            threads=self._threads,
            at_once=_CHUNK,
            name="listing",
        )

    def _list_or_why(self, location: str, *, recursive: bool) -> Listing | Denied:
        try:
            return self.list(location, recursive=recursive)
        except Denied as error:
            return error

    def list(self, location: str, *, recursive: bool = False) -> Listing:
        """Data files in a directory, and with `recursive` in all below it.

        A directory that does not exist holds none, as in Hive.  One below it that goes while it is looked into may
        have been renamed, with its files: they are looked for again.
        """
        for _ in range(_TRIES):
            try:
                return self._listed(location, recursive=recursive)
            except NotFound:
                if not recursive or not self._is_there(location):
                    is_told = keeps_times(location)
                    gone = NO_DIRECTORY_NS if is_told else None
                    began_ns, keeps = time.time_ns(), keeps_times(location)
                    return Listing(
                        location=location, files=(), began_ns=began_ns, directory_mtime_ns=gone, keeps_times=keeps
                    )
        raise Unavailable(f"cannot list {location}: directories below it go while they are looked into")

    def _is_there(self, location: str) -> bool:
        try:
            self._listed(location, recursive=False)
        except NotFound:
            return False
        return True

    def _listed(self, location: str, *, recursive: bool) -> Listing:
        path = local_path(location)
        with told("list", location):
            if path is None:
                return self._list_remote(location, recursive=recursive)
            return self._list_local(location, path, recursive=recursive)

    def modified_ns(self, location: str) -> int | None:
        """When a directory last had a file added, removed or renamed; None where its storage does not say.

        NO_DIRECTORY_NS where there is none.
        """
        path = local_path(location)
        try:
            with told("list", location):
                if path is None:
                    return self._remote.modified_ns(location)
                return os.stat(path).st_mtime_ns  # noqa: PTH116 - called once per partition and sync
        except NotFound:
            return NO_DIRECTORY_NS

    def _list_local(self, location: str, path: str, *, recursive: bool) -> Listing:
        began_ns, modified_ns = time.time_ns(), self.modified_ns(location)
        files: list[ListedFile] = []
        unread: list[str] = []
        below: list[Subdirectory] = []
        pending, seen = [""], set[tuple[int, int]]()
        unfinished: list[int] = []
        while pending:
            prefix = pending.pop()
            if recursive:
                below += _entered(location, path, prefix, seen)
            with os.scandir(os.path.join(path, prefix)) as entries:  # noqa: PTH118 - a Path per file is slow
                for entry in entries:
                    if is_hidden(entry.name):
                        unfinished += _times_of_work(entry)
                    elif entry.is_dir():
                        (pending if recursive else unread).append(f"{prefix}{entry.name}/")
                    elif found := _local_file(entry, prefix):
                        if found.size:
                            files.append(found)
                        else:
                            unfinished.append(found.mtime_ns)
        return Listing(
            location=location,
            files=tuple(sorted(files, key=lambda file: file.path)),
            began_ns=began_ns,
            subdirectories=tuple(sorted(name.rstrip("/") for name in unread)),
            below=tuple(sorted(below, key=lambda one: one.path)),
            directory_mtime_ns=modified_ns,
            is_being_written=any(may_be_going_on(one, began_ns) for one in unfinished),
        )

    def _list_remote(self, location: str, *, recursive: bool) -> Listing:
        began_ns, modified_ns = time.time_ns() - _SKEW_NS, self.modified_ns(location)
        files: list[ListedFile] = []
        below: list[Subdirectory] = []
        unfinished: list[int | None] = []
        for entry in self._entries(location, recursive=recursive):
            names = entry.path.split("/")
            if any(map(is_hidden, names)):
                unfinished += [entry.mtime_ns] if any(map(is_unfinished_work, names)) else []
            elif entry.is_directory:
                below.append(Subdirectory(entry.path, entry.mtime_ns if has_times(location) else None))
            elif entry.size:
                files.append(ListedFile(path=entry.path, size=entry.size, mtime_ns=entry.mtime_ns or began_ns))
            else:
                unfinished.append(entry.mtime_ns)
        below.sort(key=lambda one: one.path)
        return Listing(
            location=location,
            files=tuple(sorted(files, key=lambda file: file.path)),
            began_ns=began_ns,
            subdirectories=() if recursive else tuple(one.path for one in below),
            below=tuple(below) if recursive else (),
            directory_mtime_ns=modified_ns,
            is_being_written=any(may_be_going_on(one, began_ns) for one in unfinished),
            keeps_times=has_times(location),
        )

    def _entries(self, location: str, *, recursive: bool) -> Iterator[RemoteEntry]:
        """Object stores list all keys below a prefix at once.  Where there are real directories, hidden ones are never
        looked into: they come and go with every job.
        """
        if not recursive or not has_times(location):
            yield from self._remote.entries(location, recursive=recursive)
            return
        pending = [""]
        while pending:
            prefix = pending.pop()
            for entry in self._remote.entries(f"{location.rstrip('/')}/{prefix}", recursive=False):
                found = replace(entry, path=f"{prefix}{entry.path}")
                pending += [f"{found.path}/"] if found.is_directory and not is_hidden(entry.path) else []
                yield found


def _entered(location: str, path: str, prefix: str, seen: set[tuple[int, int]]) -> Iterator[Subdirectory]:
    """A directory that is looked into next; Unavailable when a link leads to one that was: rows would come twice."""
    stat = os.stat(os.path.join(path, prefix))  # noqa: PTH116, PTH118 - as above
    if (stat.st_dev, stat.st_ino) in seen:
        raise Unavailable(f"cannot list {location}: {prefix} leads to a directory that it holds already")
    seen.add((stat.st_dev, stat.st_ino))
    if prefix:
        yield Subdirectory(prefix.rstrip("/"), stat.st_mtime_ns)


def keeps_times(location: str) -> bool:
    """Whether files there keep their times when they are moved, and directories have any."""
    return local_path(location) is not None or has_times(location)


def _times_of_work(entry: os.DirEntry[str]) -> list[int]:
    """When somebody last did unfinished work of this name; none for other hidden names."""
    if not is_unfinished_work(entry.name):
        return []
    try:
        return [entry.stat().st_mtime_ns]
    except FileNotFoundError:
        return []


def _local_file(entry: os.DirEntry[str], prefix: str) -> ListedFile | None:
    """None for a file that went while the directory was read."""
    try:
        stat = entry.stat()
    except FileNotFoundError:
        return None
    return ListedFile(f"{prefix}{entry.name}", stat.st_size, stat.st_mtime_ns, str(stat.st_ino))
