"""Keytabs of the tests: written by hand, without a KDC."""

from __future__ import annotations

import struct
from pathlib import Path


def make_entry(principal: str, key: bytes = bytes(32)) -> bytes:
    """One key of a keytab of version 2."""
    name, _, realm = principal.rpartition("@")
    components = name.split("/")
    texts = b"".join(struct.pack(">H", len(text)) + text.encode() for text in (realm, *components))
    ending = struct.pack(">IIBHH", 1, 1_700_000_000, 3, 18, len(key)) + key + struct.pack(">I", 3)
    entry = struct.pack(">H", len(components)) + texts + ending
    return struct.pack(">i", len(entry)) + entry


def write_keytab(path: Path, *principals: str) -> Path:
    """A keytab with a key of each principal, and between them the hole of a deleted one."""
    hole = struct.pack(">i", -5) + bytes(5)
    path.write_bytes(b"\x05\x02" + hole.join(make_entry(principal) for principal in principals))
    path.chmod(0o600)
    return path
