"""Who plans the scans of a table: what its configuration tells clients."""

from __future__ import annotations

from catalog.iceberg.json import Json
from catalog.tables.relation import RelationKind

CONFIG = "scan-planning-mode"
"""The key in a table's configuration, the specification's."""
PROPERTY = "firn.scan-planning-mode"
CLIENT, SERVER = "client", "server"


def build_planning_config(kind: RelationKind, metadata: Json) -> dict[str, str]:
    """What the table's configuration says of planning; nothing unless somebody asked: then the client decides.

    The stores of keyed tables are planned by clients, whatever anybody asks: the specification's answers carry no
    sequence numbers, so Java's clients read a null `_last_updated_sequence_number` from what a server has planned, and
    the merged view, which compares it, would hide every pending change.
    """
    if kind.is_store:
        return {CONFIG: CLIENT}
    asked = (metadata.get("properties") or {}).get(PROPERTY, "").lower()
    return {CONFIG: asked} if asked in (CLIENT, SERVER) else {}
