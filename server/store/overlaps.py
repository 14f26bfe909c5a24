"""Places that meet others: which tables' files lie in or around some locations."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Text, Uuid, cast, or_, select
from sqlalchemy.orm import InstrumentedAttribute

from catalog.locations.location_rule import ANY_HOST, lineage, list_readings
from catalog.removal.purge import UsedLocation
from catalog.tables.relation import Relation
from firn.protocol.dropped import DroppedState
from firn.protocol.locations import list_spellings, overlaps
from server.store.catalogs import begins
from server.store.relations import to_relation
from server.store.rows import (
    CatalogRow,
    DroppedRelationRow,
    DroppedRow,
    HiveTableRow,
    PartitionBaselineRow,
    RelationRow,
    UtcDateTime,
)
from server.store.session import ReadSession

_COLUMNS = RelationRow.__table__.columns
_NO_FORMER = '%"former_locations": []%'


def find_overlaps(
    session: ReadSession,
    locations: Collection[str],
    but_for: Collection[UUID],
    *,
    in_purge: bool,
    but_for_hive_of: Relation | None = None,
    only_tables: bool = False,
) -> Iterator[UsedLocation]:
    """Places of live, dropped and Hive tables that overlap one of these, however either is written.

    The database finds what may, by how locations are usually written, and all that are written oddly; the comparison
    of all their readings decides.
    """
    wanted = {reading for location in locations for reading in list_readings(location)}
    for place in (
        *_live(session, wanted, but_for),
        *_dropped(session, wanted, but_for, in_purge=in_purge),
        *(() if only_tables else _hive(session, wanted, but_for_hive_of)),
        *(() if only_tables else _baselines(session, wanted, but_for_hive_of)),
    ):
        if any(overlaps(one, other) for one in list_readings(place.location) for other in wanted):
            yield place


def _live(session: ReadSession, wanted: Collection[str], but_for: Collection[UUID]) -> Iterator[UsedLocation]:
    query = select(RelationRow).where(
        RelationRow.id.not_in(but_for),
        or_(RelationRow.owner_id.is_(None), RelationRow.owner_id.not_in(but_for)),
        or_(
            _near(RelationRow.location, wanted),
            _near(RelationRow.metadata_location, wanted),
            cast(RelationRow.former_locations, Text) != "[]",
        ),
    )
    for relation in map(to_relation, session.scalars(query)):
        yield from _places_of(f"{relation.catalog}.{relation.name}", relation)


def _dropped(
    session: ReadSession, wanted: Collection[str], but_for: Collection[UUID], *, in_purge: bool
) -> Iterator[UsedLocation]:
    query = select(DroppedRelationRow).where(
        DroppedRelationRow.id.not_in(but_for),
        or_(
            _near(DroppedRelationRow.location, wanted),
            _near(DroppedRelationRow.metadata_location, wanted),
            cast(DroppedRelationRow.relation, Text).not_like(_NO_FORMER),
        ),
    )
    if not in_purge:
        query = query.join(DroppedRow, DroppedRow.id == DroppedRelationRow.dropped_id)
        query = query.where(DroppedRow.state == DroppedState.DROPPED)
    for relation in map(stored_relation, session.scalars(query)):
        if relation.owner_id not in but_for:
            yield from _places_of(f"{relation.catalog}.{relation.name}, which was dropped,", relation)


def _hive(session: ReadSession, wanted: Collection[str], but_for: Relation | None) -> Iterator[UsedLocation]:
    """Hive tables, but for the one that this relation is linked to, also where another catalog lists it."""
    own = set() if but_for is None else set(_beside(session, but_for))
    query = select(HiveTableRow.catalog, HiveTableRow.database, HiveTableRow.name, HiveTableRow.location)
    for catalog, database, name, location in session.execute(query.where(_near(HiveTableRow.location, wanted))):
        if but_for is None or catalog not in own or f"{database}.{name}" != but_for.hive_name:
            yield UsedLocation(f"the Hive table {database}.{name}", location)


def _beside(session: ReadSession, relation: Relation) -> Iterator[str]:
    """Catalogs of the same metastore."""
    own = select(CatalogRow.metastore_uri).where(CatalogRow.name == relation.catalog).scalar_subquery()
    yield from session.scalars(select(CatalogRow.name).where(CatalogRow.metastore_uri == own))


def _baselines(session: ReadSession, wanted: Collection[str], but_for: Relation | None) -> Iterator[UsedLocation]:
    """Partitions of linked tables, dropped ones too: they may lie anywhere, and Hive reads them."""
    query = select(RelationRow.hive_name, PartitionBaselineRow.location)
    query = query.outerjoin_from(PartitionBaselineRow, RelationRow, RelationRow.id == PartitionBaselineRow.relation_id)
    if but_for is not None:
        query = query.where(PartitionBaselineRow.relation_id != but_for.id)
    for name, location in session.execute(query.where(_near(PartitionBaselineRow.location, wanted))):
        yield UsedLocation(f"the Hive table {name or 'of a dropped table'}", location)


def _places_of(used_by: str, relation: Relation) -> Iterator[UsedLocation]:
    for location in (relation.location, relation.metadata_location, *relation.former_locations):
        if location is not None:
            yield UsedLocation(used_by, location)


def _near(column: InstrumentedAttribute[Any], wanted: Collection[str]) -> ColumnElement[bool]:
    """Whether what the column names may hold or lie in one of these places."""
    inside = [begins(column, one) for place in wanted for one in list_spellings(place) if one.endswith("/")]
    around = {one for place in wanted for above in lineage(place) for one in list_spellings(above)}
    anywhere = [one for place in wanted if place.startswith(ANY_HOST) for one in _on_any_host(column, place)]
    return or_(column.in_(sorted(around)), *inside, *anywhere, _is_odd(column))


def _on_any_host(column: InstrumentedAttribute[Any], place: str) -> Iterator[ColumnElement[bool]]:
    path = place.removeprefix(ANY_HOST)
    yield column.contains(f"{path}/", autoescape=True)
    for above in (*lineage(path), ""):
        yield column.endswith(above, autoescape=True) if above else column.not_like("%://%/_%")
        yield column.endswith(f"{above}/", autoescape=True)


def _is_odd(column: InstrumentedAttribute[Any]) -> ColumnElement[bool]:
    """Read by some programs as another path than is written: those are compared in Python."""
    doubled = (column.like(pattern) for pattern in ("%//%//%", "/%//%", "file:/_%//%"))
    dotted = (column.like(pattern) for pattern in ("%/./%", "%/../%", "%/.", "%/..", "%?%", "%#%"))
    return or_(column.contains("%", autoescape=True), *doubled, *dotted)


def stored_relation(row: DroppedRelationRow) -> Relation:
    """A relation as it was when it was dropped: JSON as the columns' own types."""
    made: dict[str, Any] = dict(row.relation)
    for column in _COLUMNS:
        text = made.get(column.key)
        if text is not None and isinstance(column.type, Uuid):
            made[column.key] = UUID(text)
        elif text is not None and isinstance(column.type, UtcDateTime):
            made[column.key] = datetime.fromisoformat(text)
    return to_relation(RelationRow(**made))
