"""Ownership of locations: the facts to check before files may be deleted because of a listing or a difference.

Comparisons err on the safe side: two texts that may mean one location count as the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from catalog.locations.location_rule import QUARANTINE
from catalog.locations.readings import list_readings
from catalog.removal.purge import UsedLocation
from catalog.tables.relation import COLLECTED, Relation, RelationKind
from firn.protocol.locations import lies_in, normalize_location, overlaps


def quarantine_location(warehouse: str) -> str:
    """The location of a catalog's quarantined files."""
    return f"{warehouse.rstrip('/')}/{QUARANTINE}"


def explain_outside_warehouse(location: str, warehouse: str) -> str | None:
    """Why Firn may not judge files below this location; None if it may."""
    own, root = normalize_location(location), normalize_location(warehouse)
    if not lies_in(own, root) or own == root:
        return f"its location {location} is not inside the catalog's warehouse"
    return None


def explain_unowned_location(relation: Relation, properties: Mapping[str, str]) -> str | None:
    """Why Firn may not delete files of this table, according to the table's own properties; None if it may.

    Firn sets gc.enabled=false on its own stores and on tables linked to Hive, so that engines do not delete. On other
    tables it is the owner's statement that files are shared.
    """
    is_plain = relation.kind is RelationKind.TABLE and relation.hive_name is None
    if is_plain and properties.get(COLLECTED, "true").strip().lower() == "false":
        return "its property gc.enabled=false says that its files are not its own"
    return None


def explain_shared_location(locations: Iterable[str], places: Iterable[UsedLocation]) -> str | None:
    """The first of these used locations that overlaps one of `locations`, in words; None if none does."""
    mine = {location: list_readings(location) for location in locations}
    for place in places:
        its = list_readings(place.location)
        for location, own in mine.items():
            if any(overlaps(reading, other_reading) for reading in own for other_reading in its):
                return f"{place.used_by} uses {place.location}, in or around {location}"
    return None


def list_used_locations(used_by: str, facts: Any) -> Iterator[UsedLocation]:
    """Every text in these facts that looks like a location, for work in progress."""
    if isinstance(facts, str):
        if "/" in facts:
            yield UsedLocation(used_by, facts)
    elif isinstance(facts, Mapping):
        for value in facts.values():
            yield from list_used_locations(used_by, value)
    elif isinstance(facts, list | tuple):
        for value in facts:
            yield from list_used_locations(used_by, value)
