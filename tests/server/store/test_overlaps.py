"""The database finds every place that may be another one, however both are written, and none that is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import uuid4

import pytest

from catalog.hive.table_index import IndexedTable
from catalog.names import RelationId, TableName
from catalog.ports.store import Database, UnitOfWork
from tests.catalog.removal.directory_pairs import APART, MAY_BE_ONE
from tests.factories import LAKE, NOW, a_catalog, a_relation

PAIRS = [pair for location, other in (*MAY_BE_ONE, *APART) for pair in ((location, other), (other, location))]


def live_tables(uow: UnitOfWork, locations: Sequence[str]) -> None:
    for number, location in enumerate(locations):
        name = TableName(("db",), f"t{number}")
        uow.relations.add(a_relation(id=RelationId(uuid4()), name=name, location=location, metadata_location=None))


def tables_that_were_there(uow: UnitOfWork, locations: Sequence[str]) -> None:
    for number, location in enumerate(locations):
        own = {"id": RelationId(uuid4()), "name": TableName(("db",), f"t{number}"), "location": "s3://far/away"}
        uow.relations.add(a_relation(**own, metadata_location=None, former_locations=(location,)))


def hive_tables(uow: UnitOfWork, locations: Sequence[str]) -> None:
    tables = [
        IndexedTable(
            catalog=LAKE,
            database="shop",
            name=f"t{number}",
            format="parquet",
            location=location,
            columns=1,
            partition_columns=(),
            ddl_time=None,
            blockers=(),
            seen_at=NOW,
        )
        for number, location in enumerate(locations)
    ]
    uow.hive.replace(LAKE, "shop", tables)


def partitions_of_a_linked_table(uow: UnitOfWork, locations: Sequence[str]) -> None:
    linked = a_relation(location="s3://far/away", metadata_location=None, hive_name="shop.orders")
    uow.relations.add(linked)
    uow.baselines.put(linked.id, {f"day={number}": {"location": location} for number, location in enumerate(locations)})


@pytest.mark.parametrize("add", [live_tables, tables_that_were_there, hive_tables, partitions_of_a_linked_table])
def test_places_meet_as_they_are_read(database: Database, add: Callable[[UnitOfWork, Sequence[str]], None]) -> None:
    with database.writing() as uow:
        uow.catalogs.add(a_catalog())
        uow.namespaces.add(LAKE, ("db",), {})
        add(uow, sorted({other for _, other in PAIRS}))
    with database.reading() as uow:
        overlaps = {
            (location, other)
            for location, other in PAIRS
            if other in {place.location for place in uow.dropped.find_overlaps([location], but_for=[])}
        }
    assert overlaps == {pair for location, other in MAY_BE_ONE for pair in ((location, other), (other, location))}


def test_many_places_are_searched_at_once_beside_those_left_out(database: Database) -> None:
    """The statement has room for more values than one location needs, and the tables left out are no candidates."""
    ids = [RelationId(uuid4()) for _ in APART]
    with database.writing() as uow:
        uow.catalogs.add(a_catalog())
        uow.namespaces.add(LAKE, ("db",), {})
        for number, (relation_id, (location, _)) in enumerate(zip(ids, APART, strict=True)):
            own = {"id": relation_id, "name": TableName(("db",), f"t{number}"), "location": f"{location}/{number}"}
            uow.relations.add(a_relation(**own, metadata_location=None))
        owned = {"id": RelationId(uuid4()), "owner_id": ids[0], "name": TableName(("db",), "t0_rows")}
        uow.relations.add(a_relation(**owned, location=f"{APART[0][0]}/0/rows", metadata_location=None))
        searched = [location for location, _ in APART]
        every = {f"{location}/{number}" for number, location in enumerate(searched)}
        before = {place.location for place in uow.dropped.find_overlaps(searched, but_for=[])}
        but_for_first = {place.location for place in uow.dropped.find_overlaps(searched, but_for=ids[:1])}
        nothing = list(uow.dropped.find_overlaps([], but_for=[]))
    assert (before, but_for_first) == (every | {f"{APART[0][0]}/0/rows"}, every - {f"{APART[0][0]}/0"})
    assert nothing == []
