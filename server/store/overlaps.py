"""Overlapping locations: finds tables whose files are inside or around given locations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Integer, Text, Uuid, bindparam, cast, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute

from catalog.locations.readings import ANY_HOST, list_parents, list_readings
from catalog.names import TableName, decode_namespace
from catalog.removal.purge import UsedLocation
from catalog.tables.relation import Relation
from firn.protocol.dropped import DroppedState
from firn.protocol.locations import list_spellings, overlaps
from server.store.hive_rows import HiveTableRow, PartitionBaselineRow
from server.store.prepared_statements import PreparedStatement
from server.store.relations import to_relation
from server.store.rows import CatalogRow, DroppedRelationRow, DroppedRow, RelationRow, UtcDateTime
from server.store.session import ReadSession

_COLUMNS = RelationRow.__table__.columns
_NO_FORMER = '%"former_locations": []%'
_AROUND, _INSIDE, _LIKE = 16, 8, 8
"""The number of values of each kind is rounded up to a multiple of these, so that few statements serve all searches."""
_MOST_SHAPES = 16
"""Users choose locations, whose depth changes the shape: statements of rare shapes must not fill the memory."""


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
    if not requested:
        return
    session.flush()  # the statements are prepared: they do not flush by themselves
    search = _Search.of(requested)
    for used in (
        *_find_live(session, search, but_for),
        *_find_dropped(session, search, but_for, in_purge=in_purge),
        *(() if only_tables else _find_hive(session, search, but_for_hive_of)),
        *(() if only_tables else _find_baselines(session, search, but_for_hive_of)),
    ):
        if any(overlaps(reading, other) for reading in list_readings(used.location) for other in requested):
            yield used


@dataclass(frozen=True)
class _Shape:
    """The numbers of values of a search. Searches of one shape share their statements, which take long to build."""

    around: int
    inside: int
    like: int
    any_host: bool

    def may_overlap(self, column: InstrumentedAttribute[Any]) -> ColumnElement[bool]:
        """Build the condition that a column's location may contain, or be inside, one of the searched locations."""
        around = column.in_([bindparam(f"around{number}") for number in range(self.around)])
        inside = [
            func.substr(column, 1, bindparam(f"length{number}", type_=Integer)) == bindparam(f"inside{number}")
            for number in range(self.inside)
        ]
        like = [column.like(bindparam(f"like{number}"), escape="/") for number in range(self.like)]
        root = [column.not_like("%://%/_%")] if self.any_host else []
        return or_(around, *inside, *like, *root, _is_odd(column))


@dataclass(frozen=True)
class _Search:
    """The values of `_Shape.may_overlap` for some locations."""

    shape: _Shape
    values: Mapping[str, str | int]

    @classmethod
    def of(cls, requested: Collection[str]) -> _Search:
        """Prepare the search for overlaps with these readings, of which there is at least one."""
        spellings = {spelling for location in requested for spelling in list_spellings(location)}
        parents = {parent for location in requested for parent in list_parents(location)}
        around = _fill({spelling for parent in parents for spelling in list_spellings(parent)}, _AROUND)
        inside = _fill({spelling for spelling in spellings if spelling.endswith("/")}, _INSIDE)
        paths = [location.removeprefix(ANY_HOST) for location in requested if location.startswith(ANY_HOST)]
        like = _fill({pattern for path in paths for pattern in _match_any_host(path)}, _LIKE) if paths else []
        values = {f"around{number}": spelling for number, spelling in enumerate(around)}
        values |= {f"inside{number}": prefix for number, prefix in enumerate(inside)}
        values |= {f"like{number}": pattern for number, pattern in enumerate(like)}
        lengths = {f"length{number}": len(prefix) for number, prefix in enumerate(inside)}
        return cls(_Shape(len(around), len(inside), len(like), bool(paths)), {**values, **lengths})


def _fill(values: Collection[str], multiple: int) -> list[str]:
    """Repeat a value until their number is a multiple; no values become empty texts, which no location is."""
    filler = next(iter(values), "")
    return [*values, *[filler] * (-len(values) % multiple or (0 if values else multiple))]


def _find_live(session: ReadSession, search: _Search, but_for: Collection[UUID]) -> Iterator[UsedLocation]:
    for row in _select_live(search.shape).all(session, search.values):
        relation_id, owner_id, catalog, namespace, name, location, metadata_location, former = row
        if relation_id not in but_for and owner_id not in but_for:
            used_by = f"{catalog}.{TableName(decode_namespace(namespace), name)}"
            yield from _list_locations(used_by, location, metadata_location, former)


@lru_cache(_MOST_SHAPES)
def _select_live(shape: _Shape) -> PreparedStatement:
    row = RelationRow
    query = select(
        *(row.id, row.owner_id, row.catalog, row.namespace, row.name),
        *(row.location, row.metadata_location, row.former_locations),
    )
    return PreparedStatement(
        query.where(
            or_(
                shape.may_overlap(row.location),
                shape.may_overlap(row.metadata_location),
                cast(row.former_locations, Text) != "[]",
            )
        )
    )


def _find_dropped(
    session: ReadSession, search: _Search, but_for: Collection[UUID], *, in_purge: bool
) -> Iterator[UsedLocation]:
    for relation_id, stored in _select_dropped(search.shape, in_purge=in_purge).all(session, search.values):
        if relation_id in but_for:
            continue
        relation = _load_relation(stored)
        if relation.owner_id not in but_for:
            used_by = f"{relation.catalog}.{relation.name}, which was dropped,"
            yield from _list_locations(
                used_by, relation.location, relation.metadata_location, relation.former_locations
            )


@lru_cache(_MOST_SHAPES)
def _select_dropped(shape: _Shape, *, in_purge: bool) -> PreparedStatement:
    row = DroppedRelationRow
    query = select(row.id, row.relation).where(
        or_(
            shape.may_overlap(row.location),
            shape.may_overlap(row.metadata_location),
            cast(row.relation, Text).not_like(_NO_FORMER),
        )
    )
    if not in_purge:
        query = query.join(DroppedRow, DroppedRow.id == row.dropped_id)
        query = query.where(DroppedRow.state == DroppedState.DROPPED)
    return PreparedStatement(query)


def _find_hive(session: ReadSession, search: _Search, but_for: Relation | None) -> Iterator[UsedLocation]:
    """Find Hive tables, without the one that this relation is linked to, in any catalog."""
    own = set() if but_for is None else set(_find_metastore_catalogs(session, but_for))
    for catalog, database, name, location in _select_hive(search.shape).all(session, search.values):
        if but_for is None or catalog not in own or f"{database}.{name}" != but_for.hive_name:
            yield UsedLocation(f"the Hive table {database}.{name}", location)


@lru_cache(_MOST_SHAPES)
def _select_hive(shape: _Shape) -> PreparedStatement:
    query = select(HiveTableRow.catalog, HiveTableRow.database, HiveTableRow.name, HiveTableRow.location)
    return PreparedStatement(query.where(shape.may_overlap(HiveTableRow.location)))


def _find_metastore_catalogs(session: ReadSession, relation: Relation) -> Iterator[str]:
    """List the catalogs of the same metastore."""
    own = select(CatalogRow.metastore_uri).where(CatalogRow.name == relation.catalog).scalar_subquery()
    yield from session.scalars(select(CatalogRow.name).where(CatalogRow.metastore_uri == own))


def _find_baselines(session: ReadSession, search: _Search, but_for: Relation | None) -> Iterator[UsedLocation]:
    """Find partitions of linked tables, also of dropped ones: they can be anywhere, and Hive reads them."""
    values = search.values if but_for is None else {**search.values, "but_for": but_for.id}
    statement = _select_baselines(search.shape, but_for_one=but_for is not None)
    for name, location in statement.all(session, values):
        yield UsedLocation(f"the Hive table {name or 'of a dropped table'}", location)


@lru_cache(_MOST_SHAPES)
def _select_baselines(shape: _Shape, *, but_for_one: bool) -> PreparedStatement:
    row = PartitionBaselineRow
    query = select(RelationRow.hive_name, row.location).where(shape.may_overlap(row.location))
    query = query.outerjoin_from(row, RelationRow, RelationRow.id == row.relation_id)
    return PreparedStatement(query.where(row.relation_id != bindparam("but_for")) if but_for_one else query)


def _list_locations(
    used_by: str, location: str, metadata_location: str | None, former_locations: Iterable[str]
) -> Iterator[UsedLocation]:
    for used in (location, metadata_location, *former_locations):
        if used is not None:
            yield UsedLocation(used_by, used)


def _match_any_host(path: str) -> Iterator[str]:
    """List patterns of the locations inside and around a path on a host of any name."""
    yield f"%{_escape(path)}//%"
    for parent in (*list_parents(path), ""):
        if parent:
            yield f"%{_escape(parent)}"
        yield f"%{_escape(parent)}//"


def _escape(text: str) -> str:
    """Escape what LIKE interprets, with `/` as the escape character."""
    return text.replace("/", "//").replace("%", "/%").replace("_", "/_")


@cache
def _is_odd(column: InstrumentedAttribute[Any]) -> ColumnElement[bool]:
    """Build the condition for unusual spellings, which programs interpret differently; Python compares these."""
    doubled = (column.like(pattern) for pattern in ("%//%//%", "/%//%", "file:/_%//%"))
    dotted = (column.like(pattern) for pattern in ("%/./%", "%/../%", "%/.", "%/..", "%?%", "%#%"))
    return or_(column.contains("%", autoescape=True), *doubled, *dotted)


def load_stored_relation(row: DroppedRelationRow) -> Relation:
    """Load a relation as of its drop, converting JSON to the types of the columns."""
    return _load_relation(row.relation)


def _load_relation(stored: Mapping[str, Any]) -> Relation:
    values: dict[str, Any] = dict(stored)
    for column in _COLUMNS:
        text = values.get(column.key)
        if text is not None and isinstance(column.type, Uuid):
            values[column.key] = UUID(text)
        elif text is not None and isinstance(column.type, UtcDateTime):
            values[column.key] = datetime.fromisoformat(text)
    return to_relation(RelationRow(**values))
