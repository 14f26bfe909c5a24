"""Drops by an engine: what `purgeRequested` means, what protection answers, and that the name is free at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError, NamespaceNotEmptyError, NoSuchTableError, RESTError
from pyiceberg.table import Table

from tests.spark_fixtures import ServerProcess, server_process
from tests.waiting import LONG

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data_dir = tmp_path_factory.mktemp("dropping") / "data"
    with server_process(data_dir, FIRN_BACKGROUND__PURGE_SECONDS="0.2") as server:
        yield server


@pytest.fixture
def catalog(server: ServerProcess) -> RestCatalog:
    return RestCatalog("lake", uri=f"{server.url}/iceberg", warehouse="lake")


@pytest.fixture
def written(catalog: RestCatalog, request: pytest.FixtureRequest) -> Table:
    """A table of three rows, in a namespace of this test's own."""
    space = request.node.name.replace("[", "_").replace("]", "")[:60]
    catalog.create_namespace_if_not_exists(space)
    table: Table = catalog.create_table((space, "t"), ROWS.schema)
    table.append(ROWS)
    return table


def files_of(table: Table) -> list[Path]:
    return [path for path in Path(urlparse(table.location()).path).rglob("*") if path.is_file()]


def dropped(server: ServerProcess, table: Table) -> list[dict[str, object]]:
    items: list[dict[str, object]] = server.get(f"catalogs/lake/dropped?name={'.'.join(table.name())}")["items"]
    return items


def purged(server: ServerProcess, table: Table) -> bool:
    """Whether the server's own task ends it, sooner or later."""
    deadline = time.monotonic() + LONG
    while dropped(server, table):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def test_engines_drop_a_table_that_a_job_waits_for(server: ServerProcess, catalog: RestCatalog, written: Table) -> None:
    """It was 409 for ever where no optimizer ran: each canceled job was followed by a new one."""
    name = ".".join(written.name())
    job = server.post(f"catalogs/lake/tables/{name}/jobs", {"kind": "expire"})
    catalog.drop_table(written.name())
    assert server.get(f"jobs/{job['id']}")["status"] == "canceled"
    assert len(dropped(server, written)) == 1


def test_a_table_that_an_engine_drops_comes_back_with_its_rows(
    server: ServerProcess, catalog: RestCatalog, written: Table
) -> None:
    catalog.drop_table(written.name())
    with pytest.raises(NoSuchTableError):
        catalog.load_table(written.name())
    anew = catalog.create_table(written.name(), ROWS.schema)
    assert anew.location() != written.location()
    catalog.drop_table(anew.name())
    newest, oldest = dropped(server, written)
    assert newest["purge"] is oldest["purge"] is False
    server.post(f"catalogs/lake/dropped/{oldest['id']}/undrop")
    assert catalog.load_table(written.name()).scan().to_arrow().sort_by("id") == ROWS


def test_a_purge_that_an_engine_asks_for_waits_for_the_retention(
    server: ServerProcess, catalog: RestCatalog, written: Table
) -> None:
    catalog.purge_table(written.name())
    (entry,) = dropped(server, written)
    assert entry["purge"] is True
    assert files_of(written)
    answer = httpx.delete(f"{server.url}/api/v1/catalogs/lake/dropped/{entry['id']}")
    assert answer.status_code == 202
    assert purged(server, written)
    assert files_of(written) == []


def test_a_protected_table_is_refused_to_engines_with_what_to_do(catalog: RestCatalog, written: Table) -> None:
    with written.transaction() as changes:
        changes.set_properties({"firn.protected": "true"})
    for act in (catalog.drop_table, catalog.purge_table):
        with pytest.raises(ForbiddenError, match="firn table unprotect"):
            act(written.name())
    with written.transaction() as changes:
        changes.remove_properties("firn.protected")
    catalog.drop_table(written.name())


def test_the_protection_of_a_keyed_table_is_set_and_lifted_under_its_own_name(catalog: RestCatalog) -> None:
    catalog.create_namespace("kept")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    keyed = catalog.create_table("kept.keyed", schema, properties={"firn.primary-key": "id"})
    with keyed.transaction() as changes:
        changes.set_properties({"firn.protected": "true"})
    with pytest.raises(ForbiddenError, match=r"ALTER TABLE kept\.keyed UNSET TBLPROPERTIES"):
        catalog.drop_table(keyed.name())
    with keyed.transaction() as changes:
        changes.remove_properties("firn.protected")
    catalog.drop_table(keyed.name())


def test_a_protected_namespace_is_refused_to_engines(catalog: RestCatalog) -> None:
    catalog.create_namespace("fortress", {"firn.protected": "true"})
    with pytest.raises(ForbiddenError, match="firn namespace unprotect"):
        catalog.drop_namespace("fortress")
    catalog.update_namespace_properties("fortress", removals={"firn.protected"})
    catalog.drop_namespace("fortress")


def test_engines_drop_no_namespace_that_holds_something(catalog: RestCatalog, written: Table) -> None:
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(written.name()[:-1])


def test_a_commit_that_began_before_the_drop_is_not_found_and_goes_through_after_the_undrop(
    server: ServerProcess, catalog: RestCatalog, written: Table
) -> None:
    catalog.drop_table(written.name())
    with pytest.raises(RESTError, match="NoSuchTableException"):
        written.append(ROWS)
    server.post(f"catalogs/lake/dropped/{dropped(server, written)[0]['id']}/undrop")
    written.append(ROWS)
    assert len(catalog.load_table(written.name()).scan().to_arrow()) == 6


def test_a_view_has_no_files_of_its_own_to_purge_but_comes_back(server: ServerProcess, catalog: RestCatalog) -> None:
    catalog.create_namespace("views")
    body = {
        "name": "v",
        "schema": {
            "type": "struct",
            "schema-id": 0,
            "fields": [{"id": 1, "name": "id", "type": "long", "required": False}],
        },
        "view-version": {
            "version-id": 1,
            "schema-id": 0,
            "timestamp-ms": 1,
            "summary": {},
            "default-namespace": ["views"],
            "representations": [{"type": "sql", "dialect": "spark", "sql": "SELECT 1 AS id"}],
        },
        "properties": {},
    }
    url = f"{server.url}/iceberg/v1/lake/namespaces/views/views"
    httpx.post(url, json=body).raise_for_status()
    httpx.delete(f"{url}/v").raise_for_status()
    (entry,) = server.get("catalogs/lake/dropped?name=views.v")["items"]
    server.post(f"catalogs/lake/dropped/{entry['id']}/undrop")
    assert httpx.get(f"{url}/v").status_code == 200
