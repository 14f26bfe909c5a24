"""Nothing is deleted at a place that may be somebody else's too, however that place is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from catalog.locations.location_rule import QUARANTINE
from catalog.names import CatalogName
from firn.protocol.dropped import DroppedState
from server.service.locations.ownership import SHARED, explain_not_own, list_stores
from server.service.tables.tables import TableDefinition
from tests.factories import LAKE
from tests.server.lake import BASE, COLUMNS, ORDERS, PLAIN, Lake, altered, set_property
from tests.server.older_tables import before_the_location_rule
from tests.server.service import sharing
from tests.server.service.sharing import OTHER, filled


def why(lake: Lake, *, by_listing: bool = True) -> str | None:
    with lake.services.database.reading() as uow:
        relation = uow.relations.find(LAKE, PLAIN) or uow.relations.find(LAKE, ORDERS)
        assert relation is not None
        tables = list_stores(uow, relation)
        properties = {table.id: lake.metadata(table.name).get("properties", {}) for table in tables}
        return explain_not_own(uow, relation, properties, by_listing=by_listing)


def test_a_table_alone_at_its_place_owns_it(lake: Lake) -> None:
    location = filled(lake)
    filled(lake, OTHER, f"{location}-sibling")
    assert why(lake) is None


def test_stores_of_one_keyed_table_are_no_strangers_to_each_other(lake: Lake) -> None:
    lake.create_keyed()
    assert why(lake) is None
    inside = TableDefinition(name=OTHER, schema=COLUMNS, location=f"{lake.metadata(BASE)['location']}/data")
    with before_the_location_rule():
        lake.services.tables.create(LAKE, inside)
    assert SHARED in (why(lake) or "")


def a_purge_that_has_begun(lake: Lake, location: str) -> None:
    sharing.registered_twice(lake, location)
    entry = lake.services.drop(LAKE, OTHER)
    with lake.services.database.writing() as uow:
        assert uow.dropped.begin_purge(entry)
        assert uow.dropped.get(LAKE, entry.id).state is DroppedState.PURGING


def a_table_of_another_catalog(lake: Lake, location: str) -> None:
    other = CatalogName("other")
    lake.services.namespaces.create_catalog(other, f"{lake.warehouse.as_uri()}-other", None, {})
    lake.services.namespaces.create(other, ("db",), {})
    lake.services.tables.create(other, TableDefinition(name=OTHER, schema=COLUMNS, location=f"{location}/data/in"))


def the_quarantine_of_another_catalog(lake: Lake, location: str) -> None:
    lake.services.namespaces.create_catalog(CatalogName("other"), location, None, {})


def a_table_whose_data_path_leads_here(lake: Lake, location: str) -> None:
    lake.services.tables.create(
        LAKE,
        TableDefinition(name=OTHER, schema=COLUMNS, properties={"write.data.path": f"{location}/data"}),
    )


@pytest.mark.parametrize(
    ("needs_it", "reason"),
    [
        (sharing.registered_twice, SHARED),
        (sharing.registered_by_another_spelling, SHARED),
        (sharing.registered_twice_and_moved, SHARED),
        (sharing.registered_after_it_moved, SHARED),
        (sharing.registered_elsewhere_without_a_manifest_list, SHARED),
        (sharing.a_table_nested_in_it, SHARED),
        (sharing.a_table_around_it, SHARED),
        (sharing.a_dropped_table_that_can_come_back, SHARED),
        (sharing.a_hive_table, SHARED),
        (a_purge_that_has_begun, SHARED),
        (sharing.a_percent_encoded_spelling, SHARED),
        (sharing.a_partition_of_a_linked_hive_table, SHARED),
        (sharing.an_operation_under_way, SHARED),
        (a_table_of_another_catalog, SHARED),
        (the_quarantine_of_another_catalog, SHARED),
        (a_table_whose_data_path_leads_here, SHARED),
    ],
)
def test_a_place_that_others_may_need_is_not_the_tables_own(
    lake: Lake, needs_it: Callable[[Lake, str], None], reason: str
) -> None:
    location = filled(lake)
    with before_the_location_rule():
        needs_it(lake, location)
    assert reason in (why(lake) or "")
    assert reason in (why(lake, by_listing=False) or "")


def test_outside_the_warehouse_nothing_is_the_tables_own(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> None:
    with before_the_location_rule():
        filled(lake, location=tmp_path_factory.mktemp("elsewhere").as_uri() + "/t")
    assert "not inside the catalog's warehouse" in (why(lake) or "")
    assert why(lake, by_listing=False) is None


def test_a_table_at_the_warehouses_root_owns_nothing(lake: Lake) -> None:
    with before_the_location_rule():
        filled(lake, location=lake.warehouse.as_uri())
    assert "not inside the catalog's warehouse" in (why(lake) or "")


def test_a_table_that_lies_in_the_quarantine_owns_nothing(lake: Lake) -> None:
    with before_the_location_rule():
        filled(lake, location=f"{lake.warehouse.as_uri()}/{QUARANTINE}")
    assert SHARED in (why(lake) or "")


def test_a_plain_table_that_says_its_files_are_not_its_own_is_believed(lake: Lake) -> None:
    filled(lake)
    lake.commit(altered(PLAIN, set_property("gc.enabled", "false")))
    assert "gc.enabled=false" in (why(lake) or "")
    assert "gc.enabled=false" in (why(lake, by_listing=False) or "")


def test_nobody_is_told_the_name_or_place_of_the_other_table(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    """Messages of purges and orphan jobs named hidden tables: administrators find them in the log."""
    location = filled(lake)
    with before_the_location_rule():
        sharing.a_table_nested_in_it(lake, location)
    assert why(lake) == SHARED
    assert "lake.db.other uses" in caplog.text
