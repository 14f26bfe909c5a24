"""Names of tables, derived from their directories."""

from __future__ import annotations

import re
from collections.abc import Sequence

from catalog.errors import Invalid
from catalog.names import Namespace, TableName

_UNIQUE = re.compile(
    r"(?<=.)[-_](?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}|[0-9a-f]{12})$"
)
"""The suffix that catalogs add to a directory's name, so that a table shares no files with a dropped one of the same
name.
"""


def derive_table_name(parts: Sequence[str], *, depth: int | None, into: Namespace) -> TableName:
    """`sales.db/orders-<uuid>` → `sales.orders`, below `into`; Invalid if no namespace results.

    `depth` is the number of directories above the table that are namespaces; None takes all.
    """
    *above, own = parts
    kept = above if depth is None else above[max(len(above) - depth, 0) :]
    namespace = (*into, *(_UNIQUE.sub("", part.removesuffix(".db") or part) for part in kept))
    if not namespace:
        raise Invalid(
            f"no directory above {own!r} names a namespace", hint="give its namespace: --into NAMESPACE, or `into`"
        )
    return TableName(namespace, _UNIQUE.sub("", own))
