"""The calls of hdfs-native's client that Firn makes, over a directory of this machine, for tests without an HDFS."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

BLOCK_BYTES = 1024


@dataclass(frozen=True)
class FakeStatus:
    path: str
    length: int
    isdir: bool
    modification_time: int
    blocksize: int | None


@dataclass
class FakeHdfs:
    """A file system at `top`; `refusals` are raised one after the other before calls succeed."""

    top: Path
    refusals: list[BaseException] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)

    def get_file_info(self, path: str) -> FakeStatus:
        here = self._find(path)
        stat = here.stat()
        return FakeStatus(
            path=path,
            length=0 if here.is_dir() else stat.st_size,
            isdir=here.is_dir(),
            modification_time=stat.st_mtime_ns // 1_000_000,
            blocksize=None if here.is_dir() else BLOCK_BYTES,
        )

    def list_status(self, path: str, recursive: bool = False) -> Iterator[FakeStatus]:  # noqa: FBT001, FBT002 - theirs
        self.listed.append(path)
        here = self._find(path)
        if not here.is_dir():
            yield self.get_file_info(path)
            return
        for entry in sorted(here.rglob("*") if recursive else here.iterdir()):
            yield self.get_file_info(f"{path.rstrip('/')}/{entry.relative_to(here)}")

    def read(self, path: str) -> FakeReader:
        here = self._find(path)
        if here.is_dir():
            raise FileNotFoundError(f"Path is not a file: {path}\n\tat java.Trace")
        return FakeReader(here.read_bytes())

    def create(self, path: str) -> FakeWriter:
        self._refuse()
        here = self._path(path)
        here.parent.mkdir(parents=True, exist_ok=True)
        here.touch(exist_ok=False)
        return FakeWriter(here)

    def rename(self, source: str, target: str, *, overwrite: bool) -> None:
        assert not overwrite
        here, there = self._find(source), self._path(target)
        if there.exists():
            raise FileExistsError(f"rename destination {target} already exists\n\tat java.Trace")
        if not there.parent.exists():
            raise FileNotFoundError(f"rename destination parent {target} not found.\n\tat java.Trace")
        here.rename(there)

    def delete(self, path: str, recursive: bool = False) -> bool:  # noqa: FBT001, FBT002 - theirs
        self._refuse()
        here = self._path(path)
        if not here.exists():
            return False
        if recursive and here.is_dir():
            shutil.rmtree(here)
        else:
            here.unlink()
        return True

    def mkdirs(self, path: str, *, create_parent: bool) -> None:
        self._refuse()
        self._path(path).mkdir(parents=create_parent, exist_ok=True)

    def _path(self, path: str) -> Path:
        return self.top / path.lstrip("/")

    def _find(self, path: str) -> Path:
        self._refuse()
        if not self._path(path).exists():
            raise FileNotFoundError(path)
        return self._path(path)

    def _refuse(self) -> None:
        if self.refusals:
            raise self.refusals.pop(0)


@dataclass
class FakeReader:
    data: bytes

    def __len__(self) -> int:
        return len(self.data)

    def read_range(self, offset: int, length: int) -> bytes:
        assert offset + length <= len(self.data), "hdfs-native panics beyond the end"
        return self.data[offset : offset + length]


@dataclass
class FakeWriter:
    path: Path

    def write(self, data: bytes) -> int:
        with self.path.open("ab") as file:
            return file.write(data)

    def close(self) -> None:
        pass
