"""Fingerprints of files, by which tests check that nothing has changed them."""

from __future__ import annotations

import hashlib
from pathlib import Path


def fingerprint(directory: Path) -> dict[str, tuple[int, int, str]]:
    """Size, modification time and checksum of every file below a directory."""
    return {
        str(path.relative_to(directory)): (
            path.stat().st_size,
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
