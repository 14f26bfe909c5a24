"""Tables that are older than the location rule are listed for administrators."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.errors import Conflict, LocationRefused
from catalog.names import TableName
from server.service.tables.tables import TableDefinition
from tests.factories import LAKE
from tests.server.lake import COLUMNS, PLAIN, Lake, altered, set_property
from tests.server.older_tables import before_the_location_rule
from tests.server.service.dropping import append_files
from tests.server.service.sharing import OTHER, filled, registered_twice

OUTSIDE = TableName(("db",), "outside")


def misplaced(lake: Lake) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for service in lake.services.misplaced.list(LAKE, limit=100).items:
        reasons.setdefault(service.table, []).append(f"{service.problem}; {service.advice}")
    return reasons


def test_tables_that_keep_the_rule_are_not_listed(lake: Lake) -> None:
    filled(lake)
    lake.create_keyed()
    assert misplaced(lake) == {}


def test_tables_that_are_older_than_the_rule_are_listed_with_what_to_do(lake: Lake, tmp_path: Path) -> None:
    location = filled(lake)
    with before_the_location_rule():
        registered_twice(lake, location)
        definition = TableDefinition(name=OUTSIDE, schema=COLUMNS, location=f"{tmp_path.as_uri()}/elsewhere/t")
        lake.services.tables.create(LAKE, definition)
    reasons = misplaced(lake)
    assert reasons.keys() == {"db.plain", "db.other", "db.outside"}
    assert f"firn catalog allow lake {tmp_path.as_uri()}/elsewhere" in reasons["db.outside"][0]
    assert "files of another table lie in or around it" in reasons["db.other"][0]
    lake.services.namespaces.change_catalog_properties(
        LAKE, updates={"firn.storage.allowed-locations": f"{tmp_path.as_uri()}/elsewhere"}, removals=[]
    )
    assert misplaced(lake).keys() == {"db.plain", "db.other"}


def test_a_data_path_and_a_manifest_list_elsewhere_are_listed(lake: Lake, tmp_path: Path) -> None:
    filled(lake)
    with before_the_location_rule():
        lake.commit(altered(PLAIN, set_property("write.data.path", f"{tmp_path.as_uri()}/data")))
        lake.commit(altered(PLAIN, set_property("write.metadata.path", f"{tmp_path.as_uri()}/metadata")))
    problems = " ".join(misplaced(lake)["db.plain"])
    assert f"{tmp_path.as_uri()}/data is not inside an allowed location" in problems
    assert f"{tmp_path.as_uri()}/metadata is not inside an allowed location" in problems


def test_where_a_table_was_dropped_another_cannot_be_made_but_it_can_be_registered_again(lake: Lake) -> None:
    location = filled(lake)
    metadata_location = lake.services.tables.load(LAKE, PLAIN).metadata_location or ""
    entry = lake.services.drop(LAKE, PLAIN)
    with pytest.raises(LocationRefused, match="files of another table lie in or around it"):
        lake.services.tables.create(LAKE, TableDefinition(name=OTHER, schema=COLUMNS, location=location))
    lake.services.tables.register(LAKE, OTHER, metadata_location)
    append_files(lake, OTHER)
    with pytest.raises(Conflict, match="another table uses its location"):
        lake.services.undrops.undrop(LAKE, entry.id)
    with pytest.raises(LocationRefused):
        lake.services.tables.register(LAKE, OUTSIDE, metadata_location)
