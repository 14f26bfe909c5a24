"""What a directory's tables are called, and when two spellings name one place."""

from __future__ import annotations

import re
from collections.abc import Sequence

from catalog.errors import Invalid
from catalog.names import Namespace, TableName

_UNIQUE = re.compile(
    r"(?<=.)[-_](?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}|[0-9a-f]{12})$"
)
"""What catalogs add to a directory's name so that no table shares files with a dropped one of the same name."""


def name_of_directory(parts: Sequence[str], *, depth: int | None, into: Namespace) -> TableName:
    """`sales.db/orders-<uuid>` → `sales.orders`, below `into`; Invalid when no namespace comes of it.

    `depth` says how many of the directories above the table, counted from it, are namespaces: all, unless given.
    """
    *above, own = parts
    kept = above if depth is None else above[max(len(above) - depth, 0) :]
    namespace = (*into, *(_UNIQUE.sub("", part.removesuffix(".db") or part) for part in kept))
    if not namespace:
        raise Invalid(
            f"no directory above {own!r} names a namespace", hint="say where it belongs: --into NAMESPACE, or `into`"
        )
    return TableName(namespace, _UNIQUE.sub("", own))


def plain_place(location: str) -> str:
    """One spelling for each place: `file:/a`, `file:///a/` and `/a` are the same, and so are s3, s3a and s3n."""
    scheme, colon, rest = location.rstrip("/").partition(":")
    if not colon or "/" in scheme:
        return location.rstrip("/")
    if scheme == "file":
        return "/" + rest.removeprefix("//localhost").lstrip("/")
    return f"{'s3' if scheme in {'s3a', 's3n'} else scheme}:{rest}"


def spellings(location: str) -> frozenset[str]:
    """All ways in which the place may have been written down."""
    plain = plain_place(location)
    if plain.startswith("/"):
        found = {plain, f"file:{plain}", f"file://{plain}"}
    elif plain.startswith("s3:"):
        found = {f"{scheme}:{plain[3:]}" for scheme in ("s3", "s3a", "s3n")}
    else:
        found = {plain}
    return frozenset(found | {f"{one}/" for one in found})


def is_inside(location: str, place: str) -> bool:
    """Whether a location is the place itself or lies below it."""
    own, around = plain_place(location), plain_place(place)
    return own == around or own.startswith(f"{around}/")
