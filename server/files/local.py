"""Local files.

A location can name anything: an endless pipe, a device, a directory, a link.  So the server opens a file without
waiting and then checks its descriptor, which nobody can replace.
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
"""The errors of opening a socket, or a device without a driver."""
STORE = "file"
T = TypeVar("T")


class LocalFiles:
    """Local files.  After `write_new` returns, the file survives a power cut."""

    def __init__(self, deadlines: Deadlines, mounts: Mounts | None = None) -> None:
        self._deadlines = deadlines
        self._mounts = Mounts() if mounts is None else mounts
        self.rule: FileRule | None = None

    def confined(self, rule: FileRule) -> LocalFiles:
        """Return a view that checks links against a rule. The caller has already checked the locations."""
        view = copy.copy(self)
        view.rule = rule
        return view

    def read(self, location: str, at_most: int) -> bytes:
        return self._timed(location, lambda path: _read(location, path, at_most, self.rule))

    def write_new(self, location: str, data: bytes) -> None:
        path = Path(_parse_local(location))
        path.parent.mkdir(parents=True, exist_ok=True)
        # The name is hidden, so Hive and Iceberg do not read a leftover as data if the process dies here.
        temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.tmp")
        linked = False
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.link(temporary, path)  # unlike rename, link refuses an existing name
                linked = True
                # The link comes before the sync: a journalling file system makes a file's names durable together with
                # the file, and the caller learns the name only afterwards. Syncing the directory would double the time.
                os.fsync(file.fileno())
        except OSError:
            if linked:
                path.unlink()
            raise
        finally:
            temporary.unlink(missing_ok=True)

    def delete(self, location: str) -> None:
        if self.rule is None:
            Path(_parse_local(location)).unlink()
        else:
            _delete_own(location, _parse_local(location), self.rule)

    def delete_directory(self, location: str) -> None:
        shutil.rmtree(_parse_local(location))

    def delete_empty_directories(self, location: str) -> None:
        """Delete a directory and those below it where they hold no file."""
        for directory, _, _ in os.walk(_parse_local(location), topdown=False):
            with contextlib.suppress(OSError):  # it holds a file, or has got one
                os.rmdir(directory)  # noqa: PTH106 - walk gives texts

    def size(self, location: str) -> int:
        return self._timed(location, lambda path: os.stat(path).st_size)  # noqa: PTH116 - once per request

    def tail(self, location: str, length: int) -> tuple[bytes, int]:
        return self._timed(location, lambda path: _tail(location, path, length, self.rule))

    def opened(self, location: str) -> BinaryIO:
        return self._timed(location, lambda path: _stream(location, path, self.rule))

    def _timed(self, location: str, call: Callable[[str], T]) -> T:
        path = _parse_local(location)
        if not self._mounts.may_hang(path):
            return call(path)

        def call_and_learn() -> T:
            result = call(path)
            self._mounts.learn(path)
            return result

        return self._deadlines.run(STORE, call_and_learn)


def open_regular(location: str, path: str, rule: FileRule | None = None) -> tuple[int, int]:
    """Open a regular file; returns the descriptor, which the caller closes, and the size. NotRegular for others.

    With a rule, LocationRefused when a link leads to a file that the table may not name.
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
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        raise NotRegular(location)
    return status.st_size


def _real_path(handle: int, path: str) -> str:
    """Get the real path of an open file or directory, whatever its name refers to now."""
    try:
        return os.readlink(f"/proc/self/fd/{handle}")  # noqa: PTH115 - once per read
    except OSError:
        return os.path.realpath(path)  # a system without /proc


def _delete_own(location: str, path: str, rule: FileRule) -> None:
    """Delete a name from the checked directory, even if somebody replaces the directory by a link."""
    directory, name = os.path.split(path)
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        real = _real_path(handle, directory)
        if real != directory and not rule.select_deletable([f"{real}/{name}"]):
            raise LocationRefused(f"{location} is not deleted, because it is outside the table's own directories")
        os.unlink(name, dir_fd=handle)
    finally:
        os.close(handle)


def _read(location: str, path: str, at_most: int, rule: FileRule | None) -> bytes:
    """Read the bytes of the file's reported size: files of /proc report none and can be endless."""
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
    """Read bytes, usually with one call; a system may return fewer than requested."""
    first = os.pread(handle, length, offset)
    if len(first) in (length, 0):
        return first
    parts = [first]
    while (length_read := sum(map(len, parts))) < length and (
        more := os.pread(handle, length - length_read, offset + length_read)
    ):
        parts.append(more)
    return b"".join(parts)


def _parse_local(location: str) -> str:
    path = local_path(location)
    if path is None:
        raise Invalid(f"{location} is not a local file")
    return path
