"""Comparison of locations: whether two texts name one location, and whether one location contains another.

Programs spell one location in several ways: `s3a` for `s3`, `file:/` for `file:///`. All parts of Firn compare the
normalized text.
"""

from __future__ import annotations

import posixpath
from urllib.parse import unquote

_SAME_STORE = {"s3a": "s3", "s3n": "s3", "viewfs": "hdfs", "wasbs": "wasb", "abfss": "abfs"}


def normalize_location(location: str) -> str:
    """Convert all spellings of a location to one: `file:/a`, `file:///a/` and `/a`, `s3a://b/c` and `s3://b//c`."""
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
    """Whether a location is the directory, or is in it; both are normalized."""
    return location == directory or location.startswith(directory.rstrip("/") + "/")


def overlaps(first: str, second: str) -> bool:
    """Whether one of two normalized locations is in the other."""
    return lies_in(first, second) or lies_in(second, first)


def list_spellings(location: str) -> frozenset[str]:
    """List the regular spellings of a location: with each scheme, with and without a slash at the end."""
    own = normalize_location(location)
    scheme, sign, rest = own.partition("://")
    if sign:
        schemes = (scheme, *(other for other, same in _SAME_STORE.items() if same == scheme))
        spellings = {f"{scheme}://{rest}" for scheme in schemes}
    else:
        spellings = {own, f"file:{own}", f"file://{own}", f"file://localhost{own}"}
    return frozenset(spellings | {f"{spelling}/" for spelling in spellings})


def list_prefixes(location: str) -> tuple[str, ...]:
    """List the prefixes of files in a directory, one for each regular spelling. No file elsewhere has such a prefix."""
    own = normalize_location(location)
    if own.startswith("/"):
        return tuple(f"{scheme}{own.rstrip('/')}/" for scheme in ("", "file:", "file://", "file://localhost"))
    scheme, _, rest = own.partition("://")
    if scheme == "s3":
        return tuple(f"{alias}://{rest}/" for alias in ("s3", "s3a", "s3n"))
    return (f"{location.rstrip('/')}/",)  # one name node, or one account, is not always the other


def may_be_same(first: str, second: str) -> bool:
    """Whether two locations may be the same file, also if only one of them is percent-encoded."""
    return unquote(normalize_location(first)) == unquote(normalize_location(second))


def _clean(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))
