"""Locations of local files, parsed without access to a file system."""

from __future__ import annotations

from catalog.errors import Invalid

_FILE_SCHEME = "file:"


def local_path(location: str) -> str | None:
    """Parse the local path of a location; None for a remote one, Invalid for another host or a relative path.

    Hadoop writes `file:/a`, Java `file:///a`, people `/a`: all name the same file.  Percent signs stay literal.
    """
    if location.startswith(_FILE_SCHEME):
        path = location[len(_FILE_SCHEME) :]
        if path.startswith("//"):
            host, slash, rest = path[2:].partition("/")
            if host not in ("", "localhost"):
                raise Invalid(f"{location} names a file on host {host!r}", hint="Use file:/path for a local file.")
            path = slash + rest
    elif "://" not in location:
        path = location
    else:
        return None
    if not path.startswith("/"):
        raise Invalid(f"{location!r} is not an absolute location", hint="Give a full path or a URI.")
    return path
