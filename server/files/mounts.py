"""Which local paths lie on file systems that may stop to answer: those behind a network or another process."""

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
_LOOK_SECONDS = 10.0
_KNOWN = 10_000
_KNOWN_SECONDS = 600


class Mounts:
    """What is mounted on this machine.  Safe to share between threads; nothing here waits for a file system."""

    def __init__(self, mounts: Path = _MOUNTS) -> None:
        self._mounts = mounts
        self._points: tuple[str, ...] = ()
        self._looked = float("-inf")
        self._answering: TTLCache[str, bool] = TTLCache(_KNOWN, _KNOWN_SECONDS)
        self._lock = threading.Lock()

    def may_hang(self, path: str) -> bool:
        """Whether a call for this file may never return; of a directory that is not known yet, too: of links."""
        points = self._hanging_points()
        if not points:
            return False
        with self._lock:
            return os.path.dirname(path) not in self._answering  # noqa: PTH120 - once per read

    def learn(self, path: str) -> None:
        """Look where a file is, links followed. This may hang itself: call it where that is fine."""
        directory = os.path.dirname(path)  # noqa: PTH120 - as above
        real = os.path.realpath(directory)
        if not any(real == point or real.startswith(f"{point}/") for point in self._hanging_points()):
            with self._lock:
                self._answering[directory] = True

    def _hanging_points(self) -> tuple[str, ...]:
        now = time.monotonic()
        if now - self._looked > _LOOK_SECONDS:
            self._points = _points(self._mounts)
            self._looked = now
        return self._points


def _points(mounts: Path) -> tuple[str, ...]:
    """Mount points of file systems that may hang. Where the system does not tell, all of it may."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ("",)
    found = []
    for line in lines:
        before, _, after = line.partition(" - ")
        if _MAY_HANG.fullmatch(after.partition(" ")[0]):
            found.append(before.split(" ")[4].replace("\\040", " ").rstrip("/"))
    return tuple(found)
