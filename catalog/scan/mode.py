"""Who plans the scans of a table: what its configuration tells clients."""

from __future__ import annotations

from collections.abc import Mapping

from catalog.iceberg.json import Json
from catalog.relation import RelationKind

CONFIG = "scan-planning-mode"
"""The key in a table's configuration, the specification's."""
PROPERTY = "firn.scan-planning-mode"
CLIENT, SERVER = "client", "server"
_LAST_WITHOUT_ROW_LINEAGE = 2


def planning_config(kind: RelationKind, metadata: Json, catalog_properties: Mapping[str, str]) -> dict[str, str]:
    """What the table's configuration says of planning; nothing unless somebody asked: then the client decides.

    The stores of keyed tables are planned by clients, whatever anybody asks: the specification's answers carry no
    sequence numbers, so Java's clients read a null `_last_updated_sequence_number` from what a server has planned, and
    the merged view, which compares it, would hide every pending change.  For the same reason a catalog's property does
    not reach tables that keep row lineage, where a rewrite would lose it: these ask for themselves.
    """
    if kind.is_store:
        return {CONFIG: CLIENT}
    own = (metadata.get("properties") or {}).get(PROPERTY, "").lower()
    if own in (CLIENT, SERVER):
        return {CONFIG: own}
    inherited = catalog_properties.get(PROPERTY, "").lower()
    if inherited == CLIENT or (inherited == SERVER and metadata["format-version"] <= _LAST_WITHOUT_ROW_LINEAGE):
        return {CONFIG: inherited}
    return {}
