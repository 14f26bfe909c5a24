"""Places that meet others: which tables' files lie in or around some locations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Text, Uuid, cast, or_, select, true
from sqlalchemy.orm import InstrumentedAttribute

from catalog.dropped import Place
from catalog.imports.names import spellings
from catalog.places import canonical, overlaps
from catalog.relation import Relation
from server.store.catalogs import begins
from server.store.relations import relation_from
from server.store.rows import DroppedRelationRow, HiveTableRow, RelationRow, UtcDateTime
from server.store.session import ReadSession

_COLUMNS = RelationRow.__table__.columns
_NO_FORMER = '%"former_locations": []%'


def places_meeting(session: ReadSession, locations: Collection[str], but_for: Collection[UUID]) -> Iterator[Place]:
    """Places of live, dropped and Hive tables that overlap one of these.

    The database finds what may, by how the locations begin; `overlaps` decides.
    """
    wanted = [canonical(location) for location in locations]
    for place in (
        *_live(session, _near_live(wanted), but_for),
        *_dropped(session, _near_dropped(wanted), but_for),
        *_hive(session, _near(HiveTableRow.location, wanted)),
    ):
        if any(overlaps(canonical(place.location), one) for one in wanted):
            yield place


def places_of_others(session: ReadSession, but_for: Collection[UUID]) -> Iterator[Place]:
    """Every place of live, dropped and Hive tables, however it is written."""
    yield from _live(session, true(), but_for)
    yield from _dropped(session, true(), but_for)
    yield from _hive(session, true())


def _near_live(wanted: Sequence[str]) -> ColumnElement[bool]:
    return or_(
        _near(RelationRow.location, wanted),
        _near(RelationRow.metadata_location, wanted),
        cast(RelationRow.former_locations, Text) != "[]",
    )


def _near_dropped(wanted: Sequence[str]) -> ColumnElement[bool]:
    return or_(
        _near(DroppedRelationRow.location, wanted),
        _near(DroppedRelationRow.metadata_location, wanted),
        cast(DroppedRelationRow.relation, Text).not_like(_NO_FORMER),
    )


def _live(session: ReadSession, which: ColumnElement[bool], but_for: Collection[UUID]) -> Iterator[Place]:
    query = select(RelationRow).where(
        RelationRow.id.not_in(but_for),
        or_(RelationRow.owner_id.is_(None), RelationRow.owner_id.not_in(but_for)),
        which,
    )
    for relation in map(relation_from, session.scalars(query)):
        yield from _places_of(f"{relation.catalog}.{relation.name}", relation)


def _dropped(session: ReadSession, which: ColumnElement[bool], but_for: Collection[UUID]) -> Iterator[Place]:
    query = select(DroppedRelationRow).where(DroppedRelationRow.id.not_in(but_for), which)
    for relation in map(kept_relation, session.scalars(query)):
        if relation.owner_id not in but_for:
            yield from _places_of(f"{relation.catalog}.{relation.name}, which was dropped,", relation)


def _hive(session: ReadSession, which: ColumnElement[bool]) -> Iterator[Place]:
    query = select(HiveTableRow.database, HiveTableRow.name, HiveTableRow.location)
    for database, name, location in session.execute(query.where(which)):
        yield Place(f"the Hive table {database}.{name}", location)


def _places_of(used_by: str, relation: Relation) -> Iterator[Place]:
    for location in (relation.location, relation.metadata_location, *relation.former_locations):
        if location is not None:
            yield Place(used_by, location)


def _near(column: InstrumentedAttribute[Any], wanted: Sequence[str]) -> ColumnElement[bool]:
    """Whether what the column names may hold or lie in one of these places, however it is spelled."""
    inside = [begins(column, one) for place in wanted for one in spellings(place) if one.endswith("/")]
    around = {one for place in wanted for above in _lineage(place) for one in spellings(above)}
    return or_(column.in_(sorted(around)), *inside)


def _lineage(place: str) -> Iterator[str]:
    """The place, then all that it lies in."""
    scheme, sign, rest = place.rpartition("://")
    while rest:
        yield f"{scheme}{sign}{rest}"
        rest = rest.rpartition("/")[0]


def kept_relation(row: DroppedRelationRow) -> Relation:
    """A relation as it was when it was dropped: JSON as the columns' own types."""
    made: dict[str, Any] = dict(row.relation)
    for column in _COLUMNS:
        text = made.get(column.key)
        if text is not None and isinstance(column.type, Uuid):
            made[column.key] = UUID(text)
        elif text is not None and isinstance(column.type, UtcDateTime):
            made[column.key] = datetime.fromisoformat(text)
    return relation_from(RelationRow(**made))
