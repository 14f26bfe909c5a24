"""Whose the files below a table's location are, as a job is told before it deletes some."""

from __future__ import annotations

import pytest

from catalog.errors import LeaseLost
from catalog.job import JobKind
from catalog.names import TableName
from server.service.ownership import SHARED
from server.service.tables import TableDefinition
from tests.factories import LAKE
from tests.server.lake import BASE, CHANGE, COLUMNS, PLAIN, Lake, altered, set_property
from tests.server.older_tables import before_the_location_rule

OTHER = TableName(("db",), "other")


def why_kept(lake: Lake, name: TableName = PLAIN) -> dict[TableName, str | None]:
    lease = lake.lease(JobKind.EXPIRE, name)
    found = {one.name: one.kept_because for one in lake.services.own_places.of(lease)}
    lake.services.jobs.cancel(lease.job_id)
    return found


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
    with before_the_location_rule():
        lake.services.tables.create(LAKE, TableDefinition(name=OTHER, schema=COLUMNS, location=location))
    assert SHARED in str(why_kept(lake)[PLAIN])


def test_a_dropped_table_that_can_come_back_still_needs_its_files(lake: Lake) -> None:
    lake.create()
    location = f"{lake.metadata(PLAIN)['location']}/data"
    with before_the_location_rule():
        lake.services.tables.create(LAKE, TableDefinition(name=OTHER, schema=COLUMNS, location=location))
    lake.services.drop(LAKE, OTHER)
    assert SHARED in str(why_kept(lake)[PLAIN])


def test_where_another_table_writes_its_data_counts_as_its_place(lake: Lake) -> None:
    lake.create()
    lake.create(OTHER)
    with before_the_location_rule():
        lake.commit(altered(OTHER, set_property("write.data.path", f"{lake.metadata(PLAIN)['location']}/data")))
    assert SHARED in str(why_kept(lake)[PLAIN])


def test_an_owner_may_say_that_files_are_shared(lake: Lake) -> None:
    lake.create(PLAIN, **{"gc.enabled": "false"})
    assert "gc.enabled" in str(why_kept(lake)[PLAIN])


def test_a_lease_that_has_ended_is_told_nothing(lake: Lake) -> None:
    lake.create()
    lease = lake.lease(JobKind.EXPIRE, PLAIN)
    lake.services.jobs.cancel(lease.job_id)
    with pytest.raises(LeaseLost):
        lake.services.own_places.of(lease)
