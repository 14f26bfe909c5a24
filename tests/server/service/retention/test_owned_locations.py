"""Whose the files below a table's location are, as a job is told before it deletes some."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.errors import LeaseLost
from catalog.jobs.job import JobKind
from catalog.names import TableName
from catalog.tables.relation import Pointer
from server.service.locations.ownership import SHARED
from server.service.tables.tables import TableDefinition
from tests.factories import LAKE
from tests.server.lake import BASE, CHANGE, COLUMNS, PLAIN, Lake

OTHER = TableName(("db",), "other")


def moved(lake: Lake, name: TableName, *also_at: str) -> None:
    """A table whose files lie in another's place: no commit takes one there, but older ones are there."""
    with lake.services.database.writing() as uow:
        relation = uow.relations.find(LAKE, name)
        assert relation is not None
        pointer = Pointer(str(relation.metadata_location), relation.location, also_at)
        assert uow.relations.move_pointer(relation, pointer, uow.now())


def why_kept(lake: Lake, name: TableName = PLAIN) -> dict[TableName, str | None]:
    lease = lake.lease(JobKind.EXPIRE, name)
    reasons = {location.name: location.keep_reason for location in lake.services.table_locations.list_locations(lease)}
    lake.services.jobs.cancel(lease.job_id)
    return reasons


def test_a_tables_files_are_its_own_and_stores_of_one_table_are_no_others(lake: Lake) -> None:
    lake.create()
    lake.create_keyed()
    assert why_kept(lake) == {PLAIN: None}
    assert why_kept(lake, TableName(("db",), "orders")) == {BASE: None, CHANGE: None}


@pytest.mark.parametrize("part", ["", "/data/nested"])
def test_no_file_is_a_tables_own_where_another_has_files_in_or_around_it(lake: Lake, part: str) -> None:
    lake.create()
    place = lake.metadata(PLAIN)["location"].replace("file:///", "file:/") + part
    location = place if part else place.rsplit("/", 1)[0]
    lake.create(OTHER)
    moved(lake, OTHER, location)
    assert why_kept(lake)[PLAIN] == SHARED


def test_a_dropped_table_that_can_come_back_still_needs_its_files(lake: Lake) -> None:
    lake.create()
    lake.create(OTHER)
    moved(lake, OTHER, f"{lake.metadata(PLAIN)['location']}/data")
    lake.services.drop(LAKE, OTHER)
    assert why_kept(lake)[PLAIN] == SHARED


def test_where_another_table_writes_its_data_counts_as_its_place(lake: Lake) -> None:
    lake.create()
    lake.create(OTHER)
    moved(lake, OTHER, lake.metadata(OTHER)["location"], f"{lake.metadata(PLAIN)['location']}/data")
    assert why_kept(lake)[PLAIN] == SHARED


def test_no_file_goes_from_an_allowed_location_outside_of_the_warehouse(lake: Lake, tmp_path: Path) -> None:
    """An expiry deleted Parquet files of another system that lay there."""
    landing = tmp_path / "landing"
    lake.services.namespaces.change_catalog_properties(
        LAKE, updates={"firn.storage.allowed-locations": str(landing)}, removals=()
    )
    lake.services.tables.create(LAKE, TableDefinition(name=PLAIN, schema=COLUMNS, location=f"{landing}/t"))
    assert "other systems may write there" in str(why_kept(lake)[PLAIN])


def test_no_file_goes_from_a_directory_that_is_a_link(lake: Lake, tmp_path: Path) -> None:
    lake.create()
    own = Path(lake.metadata(PLAIN)["location"].removeprefix("file://"))
    own.rename(tmp_path / "elsewhere")
    own.symlink_to(tmp_path / "elsewhere")
    assert why_kept(lake)[PLAIN] is not None


def test_an_owner_may_say_that_files_are_shared(lake: Lake) -> None:
    lake.create(PLAIN, **{"gc.enabled": "false"})
    assert "gc.enabled" in str(why_kept(lake)[PLAIN])


def test_a_lease_that_has_ended_is_told_nothing(lake: Lake) -> None:
    lake.create()
    lease = lake.lease(JobKind.EXPIRE, PLAIN)
    lake.services.jobs.cancel(lease.job_id)
    with pytest.raises(LeaseLost):
        lake.services.table_locations.list_locations(lease)
