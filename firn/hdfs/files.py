"""Files and directories of HDFS by location (`hdfs:`, `viewfs:`). Raises OSError as the operating system would.

A file appears under its name whole or not at all: it is written under a hidden name beside it and then renamed, which
the name node does in one step and refuses if the name is taken.
"""

from __future__ import annotations

import contextlib
import io
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firn.hdfs.calls import call, connect, iterate
from firn.hdfs.configuration import find_conf_dir
from firn.hdfs.errors import LastBlockUnreported
from firn.hdfs.mounts import find_mount

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader, FileStatus, FileWriter
    from typing_extensions import Buffer

SCHEMES = frozenset({"hdfs", "viewfs"})
_NANOSECONDS = 1_000_000
_NAME_LENGTH = 100
_DEFAULT_PORT = ":8020"
_NO_QUOTA = 2**63 - 1
_CHECKSUM_BYTES = 512
"""The bytes of one checksum of HDFS. Every block but a file's last one is a multiple of them."""


def is_on_hdfs(location: str) -> bool:
    """Whether this package reads and writes the location."""
    return location.partition("://")[0] in SCHEMES and "://" in location


@dataclass(frozen=True, slots=True)
class Status:
    """A file or directory; `path` is relative to the listed directory, and empty for itself."""

    path: str
    is_directory: bool
    size: int
    mtime_ns: int
    block_bytes: int

    @property
    def may_be_open(self) -> bool:
        """Whether somebody may still be writing the file: HDFS shows only the blocks of it that are full.

        It does not tell whether a file is closed, so a closed file that fills its blocks exactly looks the same.
        """
        return not self.is_directory and (not self.block_bytes or self.size % self.block_bytes == 0)


def get_status(location: str) -> Status:
    """Look at a file or directory; FileNotFoundError if it does not exist."""
    client, path = connect(location)
    return _describe(call(lambda: client.get_file_info(_without_slash(path))), "")


def list_directory(location: str, *, recursive: bool = False) -> list[Status]:
    """List a directory, or all below it; FileNotFoundError if it does not exist, NotADirectoryError for a file."""
    client, path = connect(location)
    base = _without_slash(path)
    below = "/" if base == "/" else f"{base}/"
    listed = iterate(lambda: client.list_status(base, recursive))
    if any(status.path == base and not status.isdir for status in listed):
        raise NotADirectoryError(location)
    return [_describe(status, status.path.removeprefix(below)) for status in listed if status.path != base]


@dataclass(frozen=True, slots=True)
class Usage:
    """The files and bytes below a directory, and its quotas; None if it has none. Bytes count every replica."""

    names: int
    space: int
    name_quota: int | None
    space_quota: int | None


def measure_usage(location: str) -> Usage:
    """Count what is below a directory. The name node visits every file, so this may take a while."""
    client, path = connect(location)
    summary = call(lambda: client.get_content_summary(_without_slash(path)))
    return Usage(
        names=summary.file_count + summary.directory_count,
        space=summary.space_consumed,
        name_quota=_read_quota(summary.quota),
        space_quota=_read_quota(summary.space_quota),
    )


def _read_quota(quota: int) -> int | None:
    """A quota; without one the name node sends -1, which the client may return as 2 to the power of 64, minus 1."""
    return quota if 0 <= quota < _NO_QUOTA else None


def make_directories(location: str) -> None:
    """Create a directory and its parents where they are missing."""
    client, path = connect(location)
    call(lambda: client.mkdirs(path, create_parent=True))


def rename(location: str, to: str) -> None:
    """Rename a file in one step; FileExistsError if the name is taken, FileNotFoundError without the file.

    ValueError if they lie in different file systems, or behind different mount points of ViewFS.
    """
    if not can_rename(location, to):
        raise ValueError(f"Cannot rename across different name services or mount points: {location} to {to}")
    client, path = connect(location)
    _, target = connect(to)
    call(lambda: client.rename(path, target, overwrite=False))


def can_rename(location: str, to: str) -> bool:
    """Whether both lie in one file system and, with ViewFS, below one mount point."""
    own, other = (find_mount(place, find_conf_dir()).removesuffix(_DEFAULT_PORT) for place in (location, to))
    return own == other


def delete(location: str, *, recursive: bool = False) -> None:
    """Delete a file, or with `recursive` a directory with its content; FileNotFoundError if it does not exist."""
    client, path = connect(location)
    if not call(lambda: client.delete(path, recursive)):
        raise FileNotFoundError(location)


def write_new(location: str, data: bytes, *, is_wanted: Callable[[], bool] = lambda: True) -> None:
    """Create a file with all of `data` or not at all; FileExistsError if the name is taken.

    Once its data is written, the file gets its name only if it `is_wanted` still; TimeoutError otherwise.
    """
    # The rename refuses a taken name. To ask before would cost each file a call, and names are rarely taken.
    with HdfsWriter(location, is_wanted) as file:
        file.write(data)


class HdfsReader(io.RawIOBase):
    """An open file. It asks the name node once, mostly, and reads its blocks from the data nodes."""

    def __init__(self, location: str) -> None:
        """Open it; FileNotFoundError if it does not exist, IsADirectoryError for a directory.

        Waits for the data nodes to report its last block; OSError if they do not, as while somebody is writing it.
        """
        super().__init__()
        self._location = location
        client, path = connect(location)
        self._file: FileReader = call(lambda: _open(client, path))
        self.size = len(self._file)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def read_range(self, offset: int, length: int) -> bytes:
        """Read bytes from a position, fewer at the end of the file; the client panics beyond it.

        Raises OSError if the client gives fewer bytes than the name node has told: a part must not look like the file.
        """
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        data: bytes = call(lambda: self._file.read_range(offset, length))
        if len(data) != length:
            raise OSError(None, f"HDFS gave {len(data):,} of {length:,} bytes of {self._location}")
        return data

    def read(self, size: int | None = -1) -> bytes:
        data = self.read_range(self._position, self.size if size is None or size < 0 else size)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _open(client: Client, path: str) -> FileReader:
    """Open a file with all of its blocks; LastBlockUnreported if the name node does not list its last one yet.

    A writer may close a file before a data node has reported its last block
    (`dfs.namenode.file.close.num-committed-allowed`). The list of blocks then ends before this block, and the client
    takes this end for that of the file (docs/decisions/0165). A file that was closed a moment ago looks empty.
    """
    file = client.read(path)
    if len(file) % _CHECKSUM_BYTES == 0:
        length = client.get_file_info(path).length
        if length != len(file):
            raise LastBlockUnreported(length, len(file))
    return file


class HdfsWriter(io.RawIOBase):
    """A new file, which `close` puts under its name. Without a close, or with an error inside `with`, none appears."""

    def __init__(self, location: str, is_wanted: Callable[[], bool] = lambda: True) -> None:
        super().__init__()
        self._location, self._is_wanted = location, is_wanted
        self._client, self._path = connect(location)
        directory, _, name = self._path.rpartition("/")
        # The name is hidden, so Hive and Iceberg do not read a leftover as data if the process dies.
        self._hidden = f"{directory}/.{name[:_NAME_LENGTH]}.{secrets.token_hex(8)}.tmp"
        try:
            self._file: FileWriter | None = call(lambda: self._client.create(self._hidden))
        except FileExistsError as error:  # no other file has this name: the client has asked twice
            raise OSError(None, f"the name node has created the file without an answer: {error}") from None
        except ValueError as error:  # a name that HDFS refuses, such as one with a colon
            raise ValueError(str(error).replace(self._hidden, self._path)) from None
        self._length = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._length

    def write(self, data: Buffer) -> int:
        file = self._file
        if file is None:
            raise ValueError("write to a closed file")
        view = memoryview(data).cast("B")
        call(lambda: file.write(view))
        self._length += len(view)
        return len(view)

    def close(self) -> None:
        """Finish the file and give it its name; FileExistsError, without a trace, if the name is taken."""
        file, self._file = self._file, None
        if file is not None:
            try:
                call(file.close)
                self._check_wanted()
                self._rename()
            except BaseException:
                self._remove()
                raise
            finally:
                super().close()

    def _rename(self) -> None:
        """Give the file its name. Raises OSError, never FileNotFoundError, if the file may have its name already.

        A client that got no answer asks again, and the name node misses the hidden file that it has already renamed.
        """
        try:
            call(lambda: self._client.rename(self._hidden, self._path, overwrite=False))
        except FileNotFoundError as error:
            raise OSError(None, f"the name node has lost the file, or renamed it without an answer: {error}") from None

    def _check_wanted(self) -> None:
        if not self._is_wanted():
            raise TimeoutError(None, f"{self._location} was given up while it was written")

    def discard(self) -> None:
        """End without a file."""
        if self._file is not None:
            self._file = None
            self._remove()
        super().close()

    def _remove(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            call(lambda: self._client.delete(self._hidden), seconds=0)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        """Unlike other files, do not finish what nobody closed."""


def _describe(status: FileStatus, path: str) -> Status:
    return Status(
        path=path,
        is_directory=status.isdir,
        size=status.length,
        mtime_ns=status.modification_time * _NANOSECONDS,
        block_bytes=status.blocksize or 0,
    )


def _without_slash(path: str) -> str:
    return path.rstrip("/") or "/"
