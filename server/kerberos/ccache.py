"""The KDC's clock, as the library notes it in its cache of tickets."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

MOST_SECONDS = 300
"""Kerberos refuses what was made by a clock that differs by more, unless a realm or service is set up otherwise."""
_HEADER = struct.Struct(">HHHHi")
"""Version, length of the header's fields, tag and length of the first field, seconds."""
_VERSION_4, _KDC_OFFSET = 0x0504, 1


def read_clock_offset(cache: Path) -> int:
    """Seconds by which the KDC's clock was ahead of this machine's at the last ticket; negative if it was behind.

    0 if the cache does not say: the library notes it unless krb5.conf has `kdc_timesync = 0`.
    """
    with suppress(OSError, struct.error):
        version, _, tag, _, seconds = _HEADER.unpack(cache.read_bytes()[: _HEADER.size])
        if (version, tag) == (_VERSION_4, _KDC_OFFSET):
            return int(seconds)
    return 0
