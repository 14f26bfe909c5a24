"""Digests that identify a file after a move: of the file's end, which holds its footer.

A small file counts in full. Avro files have no footer, but their end holds a marker that is unique to each file.
"""

from __future__ import annotations

import hashlib

TAIL = 32 * 1024
"""Bytes at a file's end that the server reads first; they contain most footers."""
_BYTES = 7


def digest_of(tail: bytes) -> int:
    """Compute the digest of a file from its last bytes; only the last TAIL bytes of `tail` count."""
    return int.from_bytes(hashlib.sha256(tail[-TAIL:]).digest()[:_BYTES])
