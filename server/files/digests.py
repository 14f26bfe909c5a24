"""What a file is known again by when it was moved: a digest of its end, which holds its footer.

Where a file is small that is all of it. Of Avro files, which have no footers, the end holds a marker that each file has
of its own.
"""

from __future__ import annotations

import hashlib

TAIL = 32 * 1024
"""How many bytes of a file's end are read for its footer at first; most footers are in them."""
_BYTES = 7


def digest_of(tail: bytes) -> int:
    """The digest of a file with this end; `tail` may be longer than what counts."""
    return int.from_bytes(hashlib.sha256(tail[-TAIL:]).digest()[:_BYTES])
