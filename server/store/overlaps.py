"""Overlapping locations: finds tables whose files are inside or around given locations."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Text, Uuid, cast, or_, select
from sqlalchemy.orm import InstrumentedAttribute

from catalog.locations.readings import ANY_HOST, list_parents, list_readings
from catalog.removal.purge import UsedLocation
from catalog.tables.relation import Relation
from firn.protocol.dropped import DroppedState
from firn.protocol.locations import list_spellings, overlaps
from server.store.catalogs import starts_with
from server.store.hive_rows import HiveTableRow, PartitionBaselineRow
from server.store.relations import to_relation
from server.store.rows import CatalogRow, DroppedRelationRow, DroppedRow, RelationRow, UtcDateTime
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
    """Find locations of live, dropped and Hive tables that overlap one of `locations`, in any spelling.

    The database selects candidates by the usual spellings, and all unusual ones.  A comparison of all interpretations
    then decides.
    """
    requested = {reading for location in locations for reading in list_readings(location)}
    for used in (
        *_find_live(session, requested, but_for),
        *_find_dropped(session, requested, but_for, in_purge=in_purge),
        *(() if only_tables else _find_hive(session, requested, but_for_hive_of)),
        *(() if only_tables else _find_baselines(session, requested, but_for_hive_of)),
    ):
        if any(overlaps(reading, other) for reading in list_readings(used.location) for other in requested):
            yield used


def _find_live(session: ReadSession, requested: Collection[str], but_for: Collection[UUID]) -> Iterator[UsedLocation]:
    query = select(RelationRow).where(
        RelationRow.id.not_in(but_for),
        or_(RelationRow.owner_id.is_(None), RelationRow.owner_id.not_in(but_for)),
        or_(
            _may_overlap(RelationRow.location, requested),
            _may_overlap(RelationRow.metadata_location, requested),
            cast(RelationRow.former_locations, Text) != "[]",
        ),
    )
    for relation in map(to_relation, session.scalars(query)):
        yield from _list_locations(f"{relation.catalog}.{relation.name}", relation)


def _find_dropped(
    session: ReadSession, requested: Collection[str], but_for: Collection[UUID], *, in_purge: bool
) -> Iterator[UsedLocation]:
    query = select(DroppedRelationRow).where(
        DroppedRelationRow.id.not_in(but_for),
        or_(
            _may_overlap(DroppedRelationRow.location, requested),
            _may_overlap(DroppedRelationRow.metadata_location, requested),
            cast(DroppedRelationRow.relation, Text).not_like(_NO_FORMER),
        ),
    )
    if not in_purge:
        query = query.join(DroppedRow, DroppedRow.id == DroppedRelationRow.dropped_id)
        query = query.where(DroppedRow.state == DroppedState.DROPPED)
    for relation in map(load_stored_relation, session.scalars(query)):
        if relation.owner_id not in but_for:
            yield from _list_locations(f"{relation.catalog}.{relation.name}, which was dropped,", relation)


def _find_hive(session: ReadSession, requested: Collection[str], but_for: Relation | None) -> Iterator[UsedLocation]:
    """Find Hive tables, without the one that this relation is linked to, in any catalog."""
    own = set() if but_for is None else set(_find_metastore_catalogs(session, but_for))
    query = select(HiveTableRow.catalog, HiveTableRow.database, HiveTableRow.name, HiveTableRow.location)
    for catalog, database, name, location in session.execute(
        query.where(_may_overlap(HiveTableRow.location, requested))
    ):
        if but_for is None or catalog not in own or f"{database}.{name}" != but_for.hive_name:
            yield UsedLocation(f"the Hive table {database}.{name}", location)


def _find_metastore_catalogs(session: ReadSession, relation: Relation) -> Iterator[str]:
    """List the catalogs of the same metastore."""
    own = select(CatalogRow.metastore_uri).where(CatalogRow.name == relation.catalog).scalar_subquery()
    yield from session.scalars(select(CatalogRow.name).where(CatalogRow.metastore_uri == own))


def _find_baselines(
    session: ReadSession, requested: Collection[str], but_for: Relation | None
) -> Iterator[UsedLocation]:
    """Find partitions of linked tables, also of dropped ones: they can be anywhere, and Hive reads them."""
    query = select(RelationRow.hive_name, PartitionBaselineRow.location)
    query = query.outerjoin_from(PartitionBaselineRow, RelationRow, RelationRow.id == PartitionBaselineRow.relation_id)
    if but_for is not None:
        query = query.where(PartitionBaselineRow.relation_id != but_for.id)
    for name, location in session.execute(query.where(_may_overlap(PartitionBaselineRow.location, requested))):
        yield UsedLocation(f"the Hive table {name or 'of a dropped table'}", location)


def _list_locations(used_by: str, relation: Relation) -> Iterator[UsedLocation]:
    for location in (relation.location, relation.metadata_location, *relation.former_locations):
        if location is not None:
            yield UsedLocation(used_by, location)


def _may_overlap(column: InstrumentedAttribute[Any], requested: Collection[str]) -> ColumnElement[bool]:
    """Build the condition that a column's location may contain, or be inside, one of these locations."""
    inside = [
        starts_with(column, spelling)
        for location in requested
        for spelling in list_spellings(location)
        if spelling.endswith("/")
    ]
    around = {
        spelling for location in requested for parent in list_parents(location) for spelling in list_spellings(parent)
    }
    anywhere = [
        condition
        for location in requested
        if location.startswith(ANY_HOST)
        for condition in _match_any_host(column, location)
    ]
    return or_(column.in_(sorted(around)), *inside, *anywhere, _is_odd(column))


def _match_any_host(column: InstrumentedAttribute[Any], location: str) -> Iterator[ColumnElement[bool]]:
    path = location.removeprefix(ANY_HOST)
    yield column.contains(f"{path}/", autoescape=True)
    for parent in (*list_parents(path), ""):
        yield column.endswith(parent, autoescape=True) if parent else column.not_like("%://%/_%")
        yield column.endswith(f"{parent}/", autoescape=True)


@cache
def _is_odd(column: InstrumentedAttribute[Any]) -> ColumnElement[bool]:
    """Build the condition for unusual spellings, which programs interpret differently; Python compares these."""
    doubled = (column.like(pattern) for pattern in ("%//%//%", "/%//%", "file:/_%//%"))
    dotted = (column.like(pattern) for pattern in ("%/./%", "%/../%", "%/.", "%/..", "%?%", "%#%"))
    return or_(column.contains("%", autoescape=True), *doubled, *dotted)


def load_stored_relation(row: DroppedRelationRow) -> Relation:
    """Load a relation as of its drop, converting JSON to the types of the columns."""
    values: dict[str, Any] = dict(row.relation)
    for column in _COLUMNS:
        text = values.get(column.key)
        if text is not None and isinstance(column.type, Uuid):
            values[column.key] = UUID(text)
        elif text is not None and isinstance(column.type, UtcDateTime):
            values[column.key] = datetime.fromisoformat(text)
    return to_relation(RelationRow(**values))
