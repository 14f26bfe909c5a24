"""The planner of a table's scans, server or client, as its configuration tells clients."""

from __future__ import annotations

from catalog.iceberg.json import Json
from catalog.tables.relation import RelationKind

CONFIG = "scan-planning-mode"
"""The specification's key in a table's configuration."""
PROPERTY = "firn.scan-planning-mode"
CLIENT, SERVER = "client", "server"


def build_planning_config(kind: RelationKind, metadata: Json) -> dict[str, str]:
    """The part of a table's configuration about planning; empty unless the property is set, and then the client
    decides.

    Clients always plan the stores of keyed tables. The specification's responses carry no sequence numbers. So Java
    clients would read a null `_last_updated_sequence_number`, and the merged view, which compares it, would hide every
    pending change.
    """
    if kind.is_store:
        return {CONFIG: CLIENT}
    mode = (metadata.get("properties") or {}).get(PROPERTY, "").lower()
    return {CONFIG: mode} if mode in (CLIENT, SERVER) else {}
