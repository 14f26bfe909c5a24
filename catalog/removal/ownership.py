"""Whose a place is: what has to be known before files may go because a listing or a difference names them.

The comparison errs on one side only. Two ways to write a place that may be one place are taken for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from catalog.locations.location_rule import QUARANTINE, list_readings
from catalog.removal.purge import UsedLocation
from catalog.tables.relation import COLLECTED, Relation, RelationKind
from firn.protocol.locations import lies_in, normalize_location, overlaps


def quarantine_location(warehouse: str) -> str:
    """Where a catalog's files are set aside."""
    return f"{warehouse.rstrip('/')}/{QUARANTINE}"


def explain_outside_warehouse(location: str, warehouse: str) -> str | None:
    """Why what a listing finds below this location is not Firn's to judge; None when it is."""
    own, root = normalize_location(location), normalize_location(warehouse)
    if not lies_in(own, root) or own == root:
        return f"its location {location} is not inside the catalog's warehouse"
    return None


def explain_unowned_location(relation: Relation, properties: Mapping[str, str]) -> str | None:
    """Why files of this table are not Firn's to delete, by what the table says of itself; None when they may be.

    Firn sets gc.enabled=false on its own stores and on tables that are linked to Hive, to keep engines from deleting;
    on any other table its owner has said that files are shared.
    """
    is_plain = relation.kind is RelationKind.TABLE and relation.hive_name is None
    if is_plain and properties.get(COLLECTED, "true").strip().lower() == "false":
        return "its property gc.enabled=false says that its files are not its own"
    return None


def explain_shared_location(locations: Iterable[str], places: Iterable[UsedLocation]) -> str | None:
    """The first of others' places that may hold one of these or lie in it, in words; None when there is none."""
    mine = {location: list_readings(location) for location in locations}
    for place in places:
        its = list_readings(place.location)
        for location, own in mine.items():
            if any(overlaps(one, other) for one in own for other in its):
                return f"{place.used_by} uses {place.location}, in or around {location}"
    return None


def list_used_locations(used_by: str, facts: Any) -> Iterator[UsedLocation]:
    """Every text in some facts that looks like a location: of work in progress nobody knows better."""
    if isinstance(facts, str):
        if "/" in facts:
            yield UsedLocation(used_by, facts)
    elif isinstance(facts, Mapping):
        for value in facts.values():
            yield from list_used_locations(used_by, value)
    elif isinstance(facts, list | tuple):
        for value in facts:
            yield from list_used_locations(used_by, value)
