"""Whole files by location: read, write once, delete.

Every failure leaves as a catalog error that names the location: NotFound for a missing file, AlreadyExists for a name
that is taken, Unavailable for everything that is the storage's fault (a full disk, a refused permission, no network).
A write that fails leaves nothing under the name it was meant for.
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
from server.files.local import LocalFiles
from server.files.locations import local_path
from server.files.read_limits import ReadLimits
from server.files.remote import RemoteFiles

DEFAULT_LIMITS = ReadLimits()
SEEN_FILES = 100_000
SEEN_SECONDS = 60
SCHEMES = frozenset(SCHEMA_TO_FILE_IO) - {"hf"}
"""What locations may begin with. Hugging Face's hub is no place for tables: PyIceberg cannot write there."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_HINTS = {
    errno.ENOSPC: "The disk is full: free some space and try again.",
    errno.EDQUOT: "The disk quota is used up: free some space and try again.",
    errno.EACCES: "The server's user may not do this there: check owner and mode.",
    errno.EPERM: "The server's user may not do this there: check owner and mode.",
    errno.EIO: "The disk cannot read it: restore it from a copy.",
    errno.EROFS: "The file system is mounted read-only.",
    errno.EMFILE: "The server has too many open files: raise its limit (ulimit -n).",
}


class Files(Protocol):
    """One kind of storage.  Raises OSError as the operating system would; `Storage` turns it into catalog errors."""

    def read(self, location: str, at_most: int) -> bytes:
        """All bytes of the file; TooLarge, and nothing is read, when there are more than that."""

    def write_new(self, location: str, data: bytes) -> None:
        """Create the file with all of `data`, or leave nothing; FileExistsError if the name is taken."""

    def delete(self, location: str) -> None:
        """Remove the file; FileNotFoundError if there is none."""

    def delete_directory(self, location: str) -> None:
        """Remove a directory and all in it; FileNotFoundError if there is none."""

    def size(self, location: str) -> int:
        """Its length in bytes."""

    def tail(self, location: str, length: int) -> tuple[bytes, int]:
        """The last bytes of the file, at most `length`, and its size."""

    def opened(self, location: str) -> BinaryIO:
        """The file's bytes, to be read from anywhere in it; whoever asks closes it."""


class Storage:
    """Files by location, wherever they are.  Safe to share between threads."""

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        limits: ReadLimits = DEFAULT_LIMITS,
        deadlines: Deadlines | None = None,
    ) -> None:
        """`properties` are PyIceberg's FileIO properties (`s3.endpoint`, `hdfs.host`, …); local files need none."""
        self.limits = limits
        self.deadlines = Deadlines(limits.seconds) if deadlines is None else deadlines
        self._properties = dict(properties or {})
        self.local = LocalFiles(self.deadlines)
        self.rule: FileRule | None = None
        self._remote: dict[str, RemoteFiles] = {}
        self._seen: TTLCache[str, bool] = TTLCache(SEEN_FILES, SEEN_SECONDS)
        self._lock = threading.Lock()

    def confined(self, rule: FileRule) -> Storage:
        """The same storage for the files that one table's metadata names: LocationRefused for all that it may not.

        Links are judged before a file is opened and, where somebody may have exchanged one meanwhile, after it.
        """
        made = copy.copy(self)
        made.rule = rule
        made.local = self.local.confined(rule)
        return made

    def read(self, location: str, at_most: int | None = None) -> bytes:
        """A whole file, of no more bytes than metadata may have unless another limit is given."""
        self._admit(location)
        with told("read", location):
            return self._files(location).read(location, self.limits.metadata_bytes if at_most is None else at_most)

    def write_new(self, location: str, data: bytes) -> None:
        """Write a file that does not exist yet, whole or not at all."""
        with told("write", location):
            self._files(location).write_new(location, data)

    def make_directory(self, location: str) -> None:
        """Make a directory of this machine; object stores have none, HDFS makes them with their first file."""
        with told("write", location):
            if (path := local_path(location)) is not None:
                Path(path).mkdir(parents=True, exist_ok=True)

    def delete(self, location: str) -> None:
        """Remove a file; one that is gone already is fine. Of many, the caller has asked the rule at once."""
        with contextlib.suppress(NotFound), told("delete", location):
            self._files(location).delete(location)

    def delete_directory(self, location: str) -> None:
        """Remove a directory and all in it; one that is gone already is fine."""
        with contextlib.suppress(NotFound), told("delete", location):
            self._files(location).delete_directory(location)

    def exists(self, location: str) -> bool:
        try:
            self.size(location)
        except NotFound:
            return False
        return True

    def was_there_lately(self, location: str) -> bool:
        """A local file is looked at each time; in an object store that is a request, and made once a minute."""
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
        with told("look at", location):
            return self._files(location).size(location)

    def tail(self, location: str, length: int) -> tuple[bytes, int]:
        """The last bytes of a file, at most `length`, and its size at that moment."""
        self._admit(location)
        with told("read", location):
            return self._files(location).tail(location, length)

    def real_path(self, path: str) -> str:
        """See catalog.ports.files.Links."""
        return os.path.realpath(path)

    def is_link(self, path: str) -> bool:
        """See catalog.ports.files.Links."""
        return os.path.islink(path)  # noqa: PTH114 (asked for each file of a scan)

    def owner(self, location: str) -> str | None:
        """Whose file it is, where this machine knows."""
        path = local_path(location)
        try:
            return None if path is None else Path(path).owner()
        except (OSError, KeyError):  # KeyError: a user without a name
            return None

    @contextlib.contextmanager
    def opened(self, location: str) -> Iterator[tuple[BinaryIO, int]]:
        """A file's bytes, to be read from anywhere in it, and its size."""
        self._admit(location)
        with told("read", location), self._files(location).opened(location) as file:
            size = file.seek(0, io.SEEK_END)
            file.seek(0)
            yield file, size

    def _admit(self, location: str) -> None:
        if self.rule is not None:
            self.rule.check([location])

    def _files(self, location: str) -> Files:
        if local_path(location) is not None:
            return self.local
        scheme = location.split("://", 1)[0]
        if not _SCHEME.fullmatch(scheme):
            raise Invalid(f"{location!r} is no location: its scheme is {scheme!r}", hint="Give a full path or a URI.")
        if scheme not in SCHEMES:
            raise Invalid(
                f"{location!r}: there is no storage for {scheme}", hint=f"Known are {', '.join(sorted(SCHEMES))}."
            )
        if scheme not in self._remote:
            self._remote[scheme] = RemoteFiles(load_file_io(self._properties, location), self.deadlines)
        return self._remote[scheme]


@contextlib.contextmanager
def told(verb: str, location: str) -> Iterator[None]:
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
        raise Invalid(f"cannot {verb} {location!r}: {error}", hint="Give a full path or a URI.") from error


def storage_failure(verb: str, location: str, error: OSError) -> CatalogError:
    """The catalog's words for an operating system's refusal."""
    reason = error.strerror or str(error) or type(error).__name__
    is_denied = isinstance(error, PermissionError) or error.errno == errno.EIO
    number = errno.EACCES if isinstance(error, PermissionError) else error.errno
    return (Denied if is_denied else Unavailable)(f"cannot {verb} {location}: {reason}", hint=_HINTS.get(number or 0))
