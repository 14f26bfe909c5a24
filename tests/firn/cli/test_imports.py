"""Tables move from one real server to another, by the command line; one of the servers is killed on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

import firn
from tests.command_line import Command, serving
from tests.server.service.imports.importing import Elsewhere

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Another Firn, with tables of its own."""
    with serving(tmp_path_factory.mktemp("other") / "data") as (url, _):
        catalog = RestCatalog("lake", uri=f"{url}/iceberg", warehouse="lake")
        for namespace in (("moved",), ("moved", "deep")):
            catalog.create_namespace(namespace, {"owner": "ann"})
            for name in ("a", "b", "c.d"):
                catalog.create_table((*namespace, name), ROWS.schema).append(ROWS)
        yield url


def test_a_catalog_is_moved_whole(run: Command, other: str, server: str) -> None:
    from_there = ("catalog", "import", "lake", "--from-rest", f"{other}/iceberg", "--warehouse", "lake")
    planned = run(*from_there, "--dry-run")
    assert (planned.code, "conflict 6" in planned.out) == (1, True)
    place = RestCatalog("lake", uri=f"{other}/iceberg", warehouse="lake").load_table(("moved", "a")).location()
    assert f"firn catalog allow lake {place.rpartition('/')[0]}" in planned.out.replace("\n", "")
    planned = run(*from_there, "--dry-run", "--allow", place.rpartition("/")[0].rpartition("/")[0])
    assert planned.code == 0, planned.err
    assert "ready 6" in planned.out
    assert "two catalogs that commit to one table lose data" in planned.err
    here = RestCatalog("lake", uri=f"{server}/iceberg", warehouse="lake")
    assert ("moved",) not in here.list_namespaces()
    done = run("catalog", "import", "lake", "--from-rest", f"{other}/iceberg", "--warehouse", "lake", "--json")
    assert done.code == 0, done.err
    assert done.json["operation"]["result"]["counts"] == {"registered": 6}
    assert {entry["name"] for entry in done.json["entries"]} >= {"moved.a", "moved.deep.`c.d`"}
    assert here.load_table(("moved", "deep", "c.d")).scan().to_arrow() == ROWS
    there = RestCatalog("lake", uri=f"{other}/iceberg", warehouse="lake").load_namespace_properties(("moved",))
    properties = here.load_namespace_properties(("moved",))
    assert properties.pop("location") != there.pop("location")
    assert properties == there
    here.load_table(("moved", "a")).append(ROWS)
    assert here.load_table(("moved", "a")).scan().to_arrow().num_rows == 6
    again = run("catalog", "import", "lake", "--from-rest", f"{other}/iceberg/v1", "--warehouse", "lake", "--refresh")
    assert (again.code, "there 6" in again.out) == (0, True)


def test_a_source_that_refuses_is_told_in_words(run: Command, other: str) -> None:
    output = run("catalog", "import", "lake", "--from-rest", f"{other}/api/v1")
    assert output.code == 1
    assert "answers 404" in output.err
    secret = "t0psecret"
    output = run("catalog", "import", "lake", "--from-warehouse", "/tmp/x", "--source-token", secret)
    assert output.code != 0
    assert secret not in output.err
    assert run("catalog", "import", "lake").code != 0


def test_what_needs_a_person_ends_the_command_with_1(run: Command, tmp_path: Path) -> None:
    elsewhere = Elsewhere(tmp_path / "w")
    elsewhere.table("picky/a")
    refused = run("catalog", "import", "lake", "--from-warehouse", elsewhere.uri)
    assert (refused.code, f"firn catalog allow lake {elsewhere.uri}" in refused.err) == (2, True)
    assert run("catalog", "import", "lake", "--from-warehouse", elsewhere.uri, "--allow-source").code == 0
    twin = Elsewhere(tmp_path / "w2")
    twin.table("picky/a", uuid="99999999-9999-4999-8999-999999999999")
    output = run("catalog", "import", "lake", "--from-warehouse", twin.uri, "--allow-source")
    assert (output.code, "conflict" in output.out) == (1, True)


def test_a_table_is_registered_by_its_file(run: Command, client: firn.Client, tmp_path: Path) -> None:
    elsewhere = Elsewhere(tmp_path / "w")
    elsewhere.table("x/a")
    client.catalogs.allow("lake", elsewhere.uri)
    at = ("table", "register", "byfile.a", "--metadata-location", elsewhere.location("x/a"))
    assert run(*at, "--dry-run", "--json").json["state"] == "ready"
    assert run("table", "show", "byfile.a").code != 0
    done = run(*at, "--json")
    assert (done.json["state"], len(done.json["warnings"])) == ("registered", 1)
    assert run(*at, "--json").json["state"] == "there"
    elsewhere.table("x/b", file="00005-z.metadata.json")
    replaced = (
        "table",
        "register",
        "byfile.a",
        "--metadata-location",
        elsewhere.location("x/b", "00005-z.metadata.json"),
    )
    refused = run(*replaced)
    assert (refused.code, "--overwrite" in refused.err) == (1, True)
    assert run(*replaced, "--overwrite").code == 0
    assert client.tables["byfile.a"].show().location == f"{elsewhere.uri}/x/b"
