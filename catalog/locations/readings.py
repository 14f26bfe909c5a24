"""The readings of a location: all locations that a text may mean to some program.

Programs decode percent signs or do not, cut a URI at `?` and `#`, and take `s3a` for `s3`. Each reading is canonical,
see catalog.locations.paths. The location rule accepts a location only if all its readings pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from urllib.parse import unquote

from catalog.errors import LocationRefused
from firn.protocol.locations import normalize_location

ANY_HOST = "hdfs://"
"""The prefix of an HDFS reading in comparisons, before its path. One name node has many names, so the host is ignored.
"""

_HDFS_HOST = re.compile(r"^(hdfs|wasb)://[^/]*")
_ABSOLUTE = re.compile(r"/|file:/(?!/)|file://(localhost)?/|(?!file:)[a-z][a-z0-9+.-]*://[^/]+/", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CUT = re.compile(r"[?#]")
_SLASH = re.compile(r"%2f", re.IGNORECASE)
_MAX_DECODINGS = 8


def list_directory_readings(location: str) -> frozenset[str]:
    """List the canonical readings of a directory; raise LocationRefused for a text that is no plain location."""
    if location != location.strip() or "\\" in location:
        raise LocationRefused(f"{location!r} is not a plain location", hint="write it without spaces or backslashes")
    return _list_plain_readings(location, unquote)


def list_file_readings(location: str) -> frozenset[str]:
    """List the canonical readings of a file.

    An encoded slash stays encoded: partition values contain it, and no program decodes it into a path.
    """
    return _list_plain_readings(location, lambda text: unquote(_SLASH.sub("%252F", text)))


def list_readings(location: str) -> set[str]:
    """List the readings of a stored location, for comparisons; HDFS hosts are ignored."""
    written = {
        normalize_location(part)
        for text in _decode_repeatedly(location, unquote)
        for part in (text, _CUT.split(text)[0])
        if part
    }
    return {_HDFS_HOST.sub(ANY_HOST, reading) for reading in written}


def _list_plain_readings(location: str, decode: Callable[[str], str]) -> frozenset[str]:
    texts = _decode_repeatedly(location, decode)
    for text in texts:
        if _CONTROL.search(text):
            raise LocationRefused(f"{location!r} is not a plain location: it has control characters")
        if _ABSOLUTE.match(text) is None:
            hint = "write /DIRECTORY, file:///DIRECTORY, s3://BUCKET/PREFIX or hdfs://HOST:PORT/DIRECTORY"
            raise LocationRefused(f"{location!r} is not an absolute location", hint=hint)
        if any(part == ".." for part in text.split("/")):
            raise LocationRefused(f"{location!r} climbs out of its directory", hint="write it without ..")
    return frozenset(normalize_location(part) for text in texts for part in (text, _CUT.split(text)[0]))


def _decode_repeatedly(location: str, decode: Callable[[str], str]) -> list[str]:
    texts = [location]
    while len(texts) < _MAX_DECODINGS and (text := decode(texts[-1])) != texts[-1]:
        texts.append(text)
    return texts


def list_parents(reading: str) -> Iterator[str]:
    """List a canonical location, then each of its parent directories."""
    scheme, sign, rest = reading.rpartition("://")
    while rest:
        yield f"{scheme}{sign}{rest}"
        rest = rest.rpartition("/")[0]


def list_stored_readings(stored: Iterable[str]) -> set[str]:
    """List the readings of stored locations."""
    return {reading for location in stored for reading in list_readings(location)}


def is_inside_any(readings: Iterable[str], directories: Collection[str]) -> bool:
    """Whether a reading is one of these directories, or in one; hosts of HDFS are ignored."""
    without_hosts = (_HDFS_HOST.sub(ANY_HOST, reading) for reading in readings)
    return any(above in directories for reading in without_hosts for above in list_parents(reading))
