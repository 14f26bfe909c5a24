"""Locations of files, however they are written: which texts name one location, and which location holds another.

Programs write one location in several ways: `s3a` for `s3`, `file:/` for `file:///`. The canonical text is the one that
every part of Firn compares.
"""

from __future__ import annotations

import posixpath
from urllib.parse import unquote

_SAME_STORE = {"s3a": "s3", "s3n": "s3", "viewfs": "hdfs", "wasbs": "wasb", "abfss": "abfs"}


def normalize_location(location: str) -> str:
    """One text for all ways to write a location: `file:/a`, `file:///a/` and `/a`, `s3a://b/c` and `s3://b//c`."""
    scheme, sign, rest = location.partition("://")
    if not sign and location.startswith("file:"):
        scheme, rest = "file", location.removeprefix("file:")
    elif not sign:
        scheme, rest = "file", location
    if scheme == "file":
        return _clean(rest.removeprefix("localhost"))
    host, _, path = rest.partition("/")
    return f"{_SAME_STORE.get(scheme, scheme)}://{host}{_clean('/' + path)}".rstrip("/")


def lies_in(location: str, directory: str) -> bool:
    """Whether a location is the directory or something below it; both canonical."""
    return location == directory or location.startswith(directory.rstrip("/") + "/")


def overlaps(one: str, other: str) -> bool:
    """Whether one of two locations holds the other; both canonical."""
    return lies_in(one, other) or lies_in(other, one)


def list_spellings(location: str) -> frozenset[str]:
    """The regular ways to write a location down: by each scheme, with and without a slash at the end."""
    own = normalize_location(location)
    scheme, sign, rest = own.partition("://")
    if sign:
        schemes = (scheme, *(other for other, same in _SAME_STORE.items() if same == scheme))
        found = {f"{one}://{rest}" for one in schemes}
    else:
        found = {own, f"file:{own}", f"file://{own}", f"file://localhost{own}"}
    return frozenset(found | {f"{one}/" for one in found})


def prefixes(location: str) -> tuple[str, ...]:
    """What the files in a directory begin with, by every regular way to write it; nothing that may lie elsewhere."""
    own = normalize_location(location)
    if own.startswith("/"):
        return tuple(f"{scheme}{own.rstrip('/')}/" for scheme in ("", "file:", "file://", "file://localhost"))
    scheme, _, rest = own.partition("://")
    if scheme == "s3":
        return tuple(f"{alias}://{rest}/" for alias in ("s3", "s3a", "s3n"))
    return (f"{location.rstrip('/')}/",)  # one name node, or one account, is not always the other


def may_be_same(one: str, other: str) -> bool:
    """Whether two names may be of one file: as some programs escape what others write plainly, that too."""
    return unquote(normalize_location(one)) == unquote(normalize_location(other))


def _clean(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))
