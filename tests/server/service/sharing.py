"""A table with real files, and the ways in which somebody else may need what lies at its place."""

from __future__ import annotations

from collections.abc import Callable

from catalog.hive.table_index import IndexedTable
from catalog.names import TableName
from catalog.ports.store import UnitOfWork
from server.service.tables.tables import TableDefinition
from tests.factories import LAKE, NOW, a_relation, an_operation
from tests.server.lake import COLUMNS, PLAIN, Lake, altered
from tests.server.older_tables import before_the_location_rule
from tests.server.service.dropping import append_files, files_below, unlisted

OTHER = TableName(("db",), "other")


def filled(lake: Lake, name: TableName = PLAIN, location: str | None = None) -> str:
    """A table with two snapshots over real files; where it lies."""
    lake.services.tables.create(LAKE, TableDefinition(name=name, schema=COLUMNS, location=location))
    append_files(lake, name)
    append_files(lake, name)
    place: str = lake.metadata(name)["location"]
    assert len(files_below(place)) == 2 * 2 + 2 + 2 + 3  # data, manifests, lists, metadata
    return place


@before_the_location_rule()
def registered_twice(lake: Lake, location: str) -> None:
    loaded = lake.services.tables.load(LAKE, PLAIN)
    lake.services.tables.register(LAKE, OTHER, loaded.metadata_location or "")


@before_the_location_rule()
def registered_by_another_spelling(lake: Lake, location: str) -> None:
    filled_elsewhere = location.replace("file:///", "file:/").replace("/db/", "/db//")
    lake.services.tables.create(LAKE, TableDefinition(name=OTHER, schema=COLUMNS, location=filled_elsewhere))


@before_the_location_rule()
def registered_twice_and_moved(lake: Lake, location: str) -> None:
    registered_twice(lake, location)
    lake.commit(altered(OTHER, {"action": "set-location", "location": f"{location}-moved"}))


@before_the_location_rule()
def registered_after_it_moved(lake: Lake, location: str) -> None:
    loaded = lake.services.tables.load(LAKE, PLAIN)
    moved = lake.services.metadata.load(loaded.metadata_location or "").parsed | {"location": f"{location}-moved"}
    elsewhere = lake.services.metadata.write(f"{location}-moved", 0, moved)
    lake.services.tables.register(LAKE, OTHER, elsewhere)


@before_the_location_rule()
def registered_elsewhere_without_a_manifest_list(lake: Lake, location: str) -> None:
    moved = unlisted(lake) | {"location": f"{location}-moved"}
    lake.services.tables.register(LAKE, OTHER, lake.services.metadata.write(moved["location"], 0, moved))


@before_the_location_rule()
def a_table_nested_in_it(lake: Lake, location: str) -> None:
    filled(lake, OTHER, f"{location}/data/nested")


@before_the_location_rule()
def a_table_around_it(lake: Lake, location: str) -> None:
    filled_around = location.rsplit("/", 1)[0]
    lake.services.tables.create(LAKE, TableDefinition(name=OTHER, schema=COLUMNS, location=filled_around))


@before_the_location_rule()
def a_dropped_table_that_can_come_back(lake: Lake, location: str) -> None:
    registered_twice(lake, location)
    lake.services.drop(LAKE, OTHER)


def a_hive_table(lake: Lake, location: str) -> None:
    table = IndexedTable(
        catalog=LAKE,
        database="shop",
        name="orders",
        format="parquet",
        location=f"{location}/data",
        columns=1,
        partition_columns=(),
        ddl_time=None,
        blockers=(),
        seen_at=NOW,
    )
    with lake.services.database.writing() as uow:
        uow.hive.replace(LAKE, "shop", [table])


@before_the_location_rule()
def a_percent_encoded_spelling(lake: Lake, location: str) -> None:
    there = location.replace("/db/", "/d%62/") + "/data"
    lake.services.tables.create(LAKE, TableDefinition(name=OTHER, schema=COLUMNS, location=there))


def a_partition_of_a_linked_hive_table(lake: Lake, location: str) -> None:
    linked = a_relation(name=OTHER, hive_name="shop.orders", location="file:/far/away", metadata_location=None)

    def link(uow: UnitOfWork) -> None:
        uow.relations.add(linked)
        uow.baselines.put(linked.id, {"day=1": {"location": f"{location}/data/day=1"}})

    _written(lake, link)


def an_operation_under_way(lake: Lake, location: str) -> None:
    _written(lake, lambda uow: uow.operations.add(an_operation(journal={"roots": [f"{location}/data/new"]})))


def _written(lake: Lake, write: Callable[[UnitOfWork], object]) -> None:
    with lake.services.database.writing() as uow:
        write(uow)
