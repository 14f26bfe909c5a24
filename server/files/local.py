"""Files of this machine.

A location may name anything: a pipe whose reading never ends, a device, a directory, a link.  So a file is opened,
without waiting, and then judged by its descriptor, which nobody can exchange meanwhile.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TypeVar

from catalog.errors import Invalid, LocationRefused
from catalog.locations.location_rule import FileRule
from server.files.deadlines import Deadlines
from server.files.locations import local_path
from server.files.mounts import Mounts
from server.files.read_limits import NotRegular, TooLarge

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_NO_FILE = {errno.ENXIO, errno.ENODEV}
"""What opening a socket, or a device without a driver, comes to."""
STORE = "file"
T = TypeVar("T")


class LocalFiles:
    """Files of this machine.  Once `write_new` has returned, the file survives a power cut."""

    def __init__(self, deadlines: Deadlines, mounts: Mounts | None = None) -> None:
        self._deadlines = deadlines
        self._mounts = Mounts() if mounts is None else mounts
        self.rule: FileRule | None = None

    def confined(self, rule: FileRule) -> LocalFiles:
        """The same, for what this rule lets a table's metadata name. Its caller has judged the locations already."""
        made = copy.copy(self)
        made.rule = rule
        return made

    def read(self, location: str, at_most: int) -> bytes:
        return self._timed(location, lambda path: _read(location, path, at_most, self.rule))

    def write_new(self, location: str, data: bytes) -> None:
        path = Path(_local(location))
        path.parent.mkdir(parents=True, exist_ok=True)
        # Hidden, so that neither Hive nor Iceberg takes a left-over for data if the process ends here.
        unfinished = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.tmp")
        named = False
        try:
            with unfinished.open("xb") as file:
                file.write(data)
                file.flush()
                os.link(unfinished, path)  # unlike rename, refuses a name that is taken
                named = True
                # Linked first: a journalling file system that makes the file durable makes its names durable with it,
                # and nobody is told the name before that. Syncing the directory too would take as long again.
                os.fsync(file.fileno())
        except OSError:
            if named:
                path.unlink()
            raise
        finally:
            unfinished.unlink(missing_ok=True)

    def delete(self, location: str) -> None:
        if self.rule is None:
            Path(_local(location)).unlink()
        else:
            _delete_own(location, _local(location), self.rule)

    def delete_directory(self, location: str) -> None:
        shutil.rmtree(_local(location))

    def size(self, location: str) -> int:
        return self._timed(location, lambda path: os.stat(path).st_size)  # noqa: PTH116 - once per request

    def tail(self, location: str, length: int) -> tuple[bytes, int]:
        return self._timed(location, lambda path: _tail(location, path, length, self.rule))

    def opened(self, location: str) -> BinaryIO:
        return self._timed(location, lambda path: _stream(location, path, self.rule))

    def _timed(self, location: str, call: Callable[[str], T]) -> T:
        path = _local(location)
        if not self._mounts.may_hang(path):
            return call(path)

        def learning() -> T:
            result = call(path)
            self._mounts.learn(path)
            return result

        return self._deadlines.run(STORE, learning)


def open_regular(location: str, path: str, rule: FileRule | None = None) -> tuple[int, int]:
    """A descriptor of a regular file, which the caller closes, and the file's size; NotRegular for anything else.

    With a rule, LocationRefused when a link has led to a file that the table may not name.
    """
    try:
        handle = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno in _NO_FILE:
            raise NotRegular(location) from error
        raise
    try:
        size = _regular_size(location, handle)
        if rule is not None and (real := _real_path(handle, path)) != path:
            rule.check([real])
        return handle, size
    except BaseException:
        os.close(handle)
        raise


def _regular_size(location: str, handle: int) -> int:
    seen = os.fstat(handle)
    if not stat.S_ISREG(seen.st_mode):
        raise NotRegular(location)
    return seen.st_size


def _real_path(handle: int, path: str) -> str:
    """Where an open file or directory is, whatever its name leads to by now."""
    try:
        return os.readlink(f"/proc/self/fd/{handle}")  # noqa: PTH115 - once per read
    except OSError:
        return os.path.realpath(path)  # a system that does not tell


def _delete_own(location: str, path: str, rule: FileRule) -> None:
    """Remove a name from the directory that was judged, even if a link is put in its place meanwhile."""
    directory, name = os.path.split(path)
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        real = _real_path(handle, directory)
        if real != directory and not rule.deletable([f"{real}/{name}"]):
            raise LocationRefused(f"{location} is not deleted: it does not lie in the table's own directories")
        os.unlink(name, dir_fd=handle)
    finally:
        os.close(handle)


def _read(location: str, path: str, at_most: int, rule: FileRule | None) -> bytes:
    """As many bytes as the file said that it has: those of /proc say none, and may go on for ever."""
    handle, size = open_regular(location, path, rule)
    try:
        if size > at_most:
            raise TooLarge(location, at_most)
        return _pread(handle, size, 0)
    finally:
        os.close(handle)


def _tail(location: str, path: str, length: int, rule: FileRule | None) -> tuple[bytes, int]:
    handle, size = open_regular(location, path, rule)
    try:
        return _pread(handle, min(length, size), max(0, size - length)), size
    finally:
        os.close(handle)


def _stream(location: str, path: str, rule: FileRule | None) -> BinaryIO:
    handle, _ = open_regular(location, path, rule)
    try:
        return open(handle, "rb")  # noqa: PTH123 - of a descriptor
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(handle)
        raise


def _pread(handle: int, length: int, offset: int) -> bytes:
    """Mostly one call; a system may give less at once than it was asked for."""
    first = os.pread(handle, length, offset)
    if len(first) in (length, 0):
        return first
    parts = [first]
    while (got := sum(map(len, parts))) < length and (more := os.pread(handle, length - got, offset + got)):
        parts.append(more)
    return b"".join(parts)


def _local(location: str) -> str:
    path = local_path(location)
    if path is None:
        raise Invalid(f"{location} does not lie on this machine")
    return path
