"""What a directory's tables are called."""

from __future__ import annotations

import re
from collections.abc import Sequence

from catalog.errors import Invalid
from catalog.names import Namespace, TableName

_UNIQUE = re.compile(
    r"(?<=.)[-_](?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}|[0-9a-f]{12})$"
)
"""What catalogs add to a directory's name so that no table shares files with a dropped one of the same name."""


def derive_table_name(parts: Sequence[str], *, depth: int | None, into: Namespace) -> TableName:
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
