"""Files by location: read, write once, delete.

Each failure becomes a catalog error that names the location: NotFound for a missing file, AlreadyExists for an existing
one, Denied or Unavailable for a failure of the storage (a full disk, a missing permission, no network).  A failed write
leaves no file at its location.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import io
import os
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Protocol

from cachetools import TTLCache
from pyiceberg.io import SCHEMA_TO_FILE_IO, load_file_io

from catalog.errors import AlreadyExists, CatalogError, Denied, Invalid, NotFound, Unavailable
from catalog.locations.location_rule import FileRule
from server.files.deadlines import Deadlines
from server.files.directories import has_times
from server.files.hdfs import HdfsFiles
from server.files.hdfs_refusals import find_advice
from server.files.local import LocalFiles
from server.files.locations import local_path
from server.files.read_limits import ReadLimits
from server.files.remote import RemoteFiles

DEFAULT_LIMITS = ReadLimits()
SEEN_FILES = 100_000
SEEN_SECONDS = 60
SCHEMES = frozenset(SCHEMA_TO_FILE_IO) - {"hf"}
"""The supported schemes of locations. PyIceberg cannot write to Hugging Face's hub, so it is excluded."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_HINTS = {
    errno.ENOSPC: "The disk is full: free some space and try again.",
    errno.EDQUOT: "The disk quota is used up: free some space and try again.",
    errno.EACCES: "The server's user lacks the permission: check owner and mode.",
    errno.EPERM: "The server's user lacks the permission: check owner and mode.",
    errno.EIO: "The disk cannot read it: restore it from a copy.",
    errno.EROFS: "The file system is mounted read-only.",
    errno.EMFILE: "The server has too many open files: raise its limit (ulimit -n).",
}


class Files(Protocol):
    """One kind of storage.  Raises OSError as the operating system would; `Storage` turns it into catalog errors."""

    def read(self, location: str, at_most: int) -> bytes:
        """Read all bytes of the file; TooLarge, without reading, when it has more than `at_most`."""

    def write_new(self, location: str, data: bytes) -> None:
        """Create the file with all of `data` or not at all; FileExistsError if it exists."""

    def delete(self, location: str) -> None:
        """Delete the file; FileNotFoundError if it does not exist."""

    def delete_directory(self, location: str) -> None:
        """Delete a directory with its content; FileNotFoundError if it does not exist."""

    def size(self, location: str) -> int:
        """Get the size of the file in bytes."""

    def tail(self, location: str, length: int) -> tuple[bytes, int]:
        """Read the last bytes of the file, at most `length`, and its size."""

    def opened(self, location: str) -> BinaryIO:
        """Open the file for random access; the caller closes it."""


class Storage:
    """Files by location, local or remote.  Safe to share between threads."""

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        limits: ReadLimits = DEFAULT_LIMITS,
        deadlines: Deadlines | None = None,
    ) -> None:
        """`properties` are PyIceberg's FileIO properties (`s3.endpoint`, …); local files and HDFS need none."""
        self.limits = limits
        self.deadlines = Deadlines(limits.seconds) if deadlines is None else deadlines
        self._properties = dict(properties or {})
        self.local = LocalFiles(self.deadlines)
        self.rule: FileRule | None = None
        self._hdfs = HdfsFiles(self.deadlines)
        self._remote: dict[str, RemoteFiles] = {}
        self._seen: TTLCache[str, bool] = TTLCache(SEEN_FILES, SEEN_SECONDS)
        self._lock = threading.Lock()

    def confined(self, rule: FileRule) -> Storage:
        """Return a view that only opens files that one table may name; LocationRefused for others.

        It checks links before it opens a file, and again afterwards where somebody could have replaced one.
        """
        view = copy.copy(self)
        view.rule = rule
        view.local = self.local.confined(rule)
        return view

    def read(self, location: str, at_most: int | None = None) -> bytes:
        """Read a file of at most `at_most` bytes, by default the limit for metadata; TooLarge."""
        self._admit(location)
        with translate_errors("read", location):
            return self._files(location).read(location, self.limits.metadata_bytes if at_most is None else at_most)

    def write_new(self, location: str, data: bytes) -> None:
        """Create a file with all of `data` or not at all; AlreadyExists."""
        with translate_errors("write", location):
            self._files(location).write_new(location, data)

    def make_directory(self, location: str) -> None:
        """Create a local directory; object stores have none, and HDFS creates them with the first file."""
        with translate_errors("write", location):
            if (path := local_path(location)) is not None:
                Path(path).mkdir(parents=True, exist_ok=True)

    def delete(self, location: str) -> None:
        """Delete a file if it exists. The caller has checked the rule, for many files at once."""
        with contextlib.suppress(NotFound), translate_errors("delete", location):
            self._files(location).delete(location)

    def delete_directory(self, location: str) -> None:
        """Delete a directory with its content if it exists."""
        with contextlib.suppress(NotFound), translate_errors("delete", location):
            self._files(location).delete_directory(location)

    def delete_empty_directories(self, location: str) -> None:
        """Delete a directory and those below it where they hold no file; object stores have no directories."""
        with contextlib.suppress(NotFound), translate_errors("delete", location):
            if local_path(location) is not None:
                self.local.delete_empty_directories(location)
            elif has_times(location):
                self._hdfs.delete_empty_directories(location)

    def exists(self, location: str) -> bool:
        try:
            self.size(location)
        except NotFound:
            return False
        return True

    def was_there_lately(self, location: str) -> bool:
        """Whether a file exists: checked each time for a local file, once a minute in an object store."""
        if local_path(location) is not None:
            return self.exists(location)
        with self._lock:
            if location in self._seen:
                return True
        there = self.exists(location)
        if there:
            with self._lock:
                self._seen[location] = True
        return there

    def size(self, location: str) -> int:
        self._admit(location)
        with translate_errors("look at", location):
            return self._files(location).size(location)

    def tail(self, location: str, length: int) -> tuple[bytes, int]:
        """Read the last bytes of a file, at most `length`, and its current size."""
        self._admit(location)
        with translate_errors("read", location):
            return self._files(location).tail(location, length)

    def real_path(self, path: str) -> str:
        """See catalog.ports.files.Links."""
        return os.path.realpath(path)

    def is_link(self, path: str) -> bool:
        """See catalog.ports.files.Links."""
        return os.path.islink(path)  # noqa: PTH114 (asked for each file of a scan)

    def owner(self, location: str) -> str | None:
        """Get the owner of a local file; None if it is unknown."""
        path = local_path(location)
        try:
            return None if path is None else Path(path).owner()
        except (OSError, KeyError):  # KeyError: a user without a name
            return None

    @contextlib.contextmanager
    def opened(self, location: str) -> Iterator[tuple[BinaryIO, int]]:
        """Open a file for random access; yields the file and its size."""
        self._admit(location)
        with translate_errors("read", location), self._files(location).opened(location) as file:
            size = file.seek(0, io.SEEK_END)
            file.seek(0)
            yield file, size

    def _admit(self, location: str) -> None:
        if self.rule is not None:
            self.rule.check([location])

    def _files(self, location: str) -> Files:
        if local_path(location) is not None:
            return self.local
        if has_times(location):
            return self._hdfs
        scheme = location.split("://", 1)[0]
        if not _SCHEME.fullmatch(scheme):
            raise Invalid(
                f"{location!r} is not a location: its scheme is {scheme!r}", hint="Give a full path or a URI."
            )
        if scheme not in SCHEMES:
            raise Invalid(
                f"{location!r}: there is no storage for {scheme}", hint=f"Known are {', '.join(sorted(SCHEMES))}."
            )
        if scheme not in self._remote:
            self._remote[scheme] = RemoteFiles(load_file_io(self._properties, location), self.deadlines)
        return self._remote[scheme]


@contextlib.contextmanager
def translate_errors(verb: str, location: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"{location} does not exist") from error
    except FileExistsError as error:
        raise AlreadyExists(f"{location} exists already") from error
    except ImportError as error:  # PyIceberg looks for the client of a storage when the first file is opened
        raise Invalid(
            f"cannot {verb} {location}: the server has no client for this storage ({error})",
            hint="Install the Python package that PyIceberg names for it, or use another storage.",
        ) from error
    except OSError as error:
        raise storage_failure(verb, location, error) from error
    except ValueError as error:  # a scheme that nobody knows, a bucket that cannot be one, a NUL in a path
        hint = find_advice(error) if has_times(location) else None
        raise Invalid(f"cannot {verb} {location!r}: {error}", hint=hint or "Give a full path or a URI.") from error


def storage_failure(verb: str, location: str, error: OSError) -> CatalogError:
    """The catalog's words for a refusal by an operating system or a name node."""
    reason = error.strerror or str(error) or type(error).__name__
    is_denied = isinstance(error, PermissionError) or error.errno == errno.EIO
    number = errno.EACCES if isinstance(error, PermissionError) else error.errno
    hint = find_advice(error) if has_times(location) else _HINTS.get(number or 0)
    return (Denied if is_denied else Unavailable)(f"cannot {verb} {location}: {reason}", hint=hint)
