"""Mounted file systems that can stop responding: those behind a network or another process."""

from __future__ import annotations

import os
import re
import threading
import time
from pathlib import Path

from cachetools import TTLCache

_MOUNTS = Path("/proc/self/mountinfo")
_MAY_HANG = re.compile(
    r"nfs\d*|cifs|smb\d*|smbfs|9p|ceph|glusterfs|lustre|gpfs|beegfs|afs|ncpfs|virtiofs|fuse(blk|\..*)?"
)
_REFRESH_SECONDS = 10.0
_CACHE_SIZE = 10_000
_CACHE_SECONDS = 600


class Mounts:
    """The mounts of this machine.  Safe to share between threads; only `learn` waits for a file system."""

    def __init__(self, mounts: Path = _MOUNTS) -> None:
        self._mounts = mounts
        self._points: tuple[str, ...] = ()
        self._refreshed_at = float("-inf")
        self._responding: TTLCache[str, bool] = TTLCache(_CACHE_SIZE, _CACHE_SECONDS)
        self._lock = threading.Lock()

    def may_hang(self, path: str) -> bool:
        """Whether a call for this file may never return; true also for unknown directories, which may be links."""
        points = self._hanging_points()
        if not points:
            return False
        with self._lock:
            return os.path.dirname(path) not in self._responding  # noqa: PTH120 - once per read

    def learn(self, path: str) -> None:
        """Resolve the directory of a file and remember it if it responds. This call itself may hang."""
        directory = os.path.dirname(path)  # noqa: PTH120 - as above
        real = os.path.realpath(directory)
        if not any(real == point or real.startswith(f"{point}/") for point in self._hanging_points()):
            with self._lock:
                self._responding[directory] = True

    def _hanging_points(self) -> tuple[str, ...]:
        now = time.monotonic()
        if now - self._refreshed_at > _REFRESH_SECONDS:
            self._points = _read_mount_points(self._mounts)
            self._refreshed_at = now
        return self._points


def _read_mount_points(mounts: Path) -> tuple[str, ...]:
    """Read the mount points of file systems that may hang: the root if the system does not list its mounts."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ("",)
    points = []
    for line in lines:
        before, _, after = line.partition(" - ")
        if _MAY_HANG.fullmatch(after.partition(" ")[0]):
            points.append(before.split(" ")[4].replace("\\040", " ").rstrip("/"))
    return tuple(points)
