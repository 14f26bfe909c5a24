"""Names over both APIs: what may stand in one, what is refused in clear words, and names that differ in case only."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest

from catalog.ports.store import Database
from catalog.tables.relation import CASE_INSENSITIVE
from firn.protocol.names import join_name
from tests.server.iceberg.create_requests import at, create_namespace, create_view
from tests.server.lake import COLUMNS, Lake, a_lake

ODD = [
    *("a.b", "a/b", "/", "a b", "Größe", "表", "CamelCase", "`", "a%2Fb", "100%", "a?b#c&d", "a\\b", "👩\u200d🌾"),
    "x" * 512,
]
WRONG = [".", "..", "", " a", "a ", "a\nb", "a\x1fb", "a\x00b", "x" * 513, "表" * 171]


@pytest.fixture
def lake(database: Database, tmp_path: Path) -> Lake:
    lake = a_lake(database, tmp_path)
    warehouse = (tmp_path / "folding").as_uri()
    lake.services.namespaces.create_catalog("folding", warehouse, None, {CASE_INSENSITIVE: "true"})
    lake.services.namespaces.create(_FOLDING, ("db",), {})
    return lake


_FOLDING: Any = "folding"


def create(lake: Lake, namespace: str, name: str, *, catalog: str = "lake", **properties: str) -> httpx.Response:
    body = {"name": name, "schema": COLUMNS, "properties": properties}
    return lake.client.post(at("namespaces", namespace, "tables", catalog=catalog), json=body)


@pytest.mark.parametrize("odd", ODD)
def test_any_name_goes_through_every_route(lake: Lake, odd: str) -> None:
    client = lake.client
    assert create_namespace(lake, odd).json()["namespace"] == [odd]
    assert create_namespace(lake, odd, odd[:400]).status_code == 200
    assert client.get(at("namespaces", odd)).json()["namespace"] == [odd]
    listed = client.get(at("namespaces"), params={"parent": odd}).json()["namespaces"]
    assert listed == [[odd, odd[:400]]]
    assert client.request("HEAD", at("namespaces", f"{odd}\x1f{odd[:400]}")).status_code == 204
    assert client.delete(at("namespaces", f"{odd}\x1f{odd[:400]}")).status_code == 204

    assert create(lake, odd, odd).status_code == 200
    loaded = client.get(at("namespaces", odd, "tables", odd))
    location = loaded.json()["metadata"]["location"]
    assert location.isascii()
    assert not set(location) & set("%#? \\")
    named = {"namespace": [odd], "name": odd}
    assert client.get(at("namespaces", odd, "tables")).json()["identifiers"] == [named]
    assert client.request("HEAD", at("namespaces", odd, "tables", odd)).status_code == 204
    updates = [{"action": "set-properties", "updates": {"a": "1"}}]
    headers = {"Idempotency-Key": str(uuid4())}
    for _ in range(2):
        answer = client.post(at("namespaces", odd, "tables", odd), json={"updates": updates}, headers=headers)
        assert answer.json()["metadata"]["properties"]["a"] == "1"
    moved = {"source": named, "destination": {"namespace": ["db"], "name": odd}}
    assert client.post(at("tables", "rename"), json=moved).status_code == 204
    assert client.delete(at("namespaces", "db", "tables", odd)).status_code == 204

    assert create_view(lake, odd, odd).status_code == 200
    assert client.get(at("namespaces", odd, "views", odd)).status_code == 200
    assert client.delete(at("namespaces", odd, "views", odd)).status_code == 204
    assert client.delete(at("namespaces", odd)).status_code == 204


@pytest.mark.parametrize(
    ("client", "name"),
    [("Apache Iceberg 1.9.1 (commit f40208a)", "a b+c/d"), ("0.14.1", "a+b%2Bc/d"), (None, "a+b%2Bc/d")],
)
def test_a_plus_in_a_path_is_a_space_where_icebergs_java_library_wrote_it(
    lake: Lake, client: str | None, name: str
) -> None:
    written = {"a b+c/d": "a+b%2Bc%2Fd", "a+b%2Bc/d": "a+b%252Bc%2Fd"}[name]
    headers = {"X-Client-Version": client} if client else {}
    assert create_namespace(lake, name).status_code == 200
    assert create(lake, name, name).status_code == 200
    loaded = lake.client.get(f"/iceberg/v1/lake/namespaces/{written}/tables/{written}", headers=headers)
    assert loaded.status_code == 200, loaded.text
    assert lake.client.get(f"/iceberg/v1/lake/namespaces/{written}", headers=headers).json()["namespace"] == [name]


def test_a_namespace_tells_where_its_tables_are_put_unless_its_owner_has_said(lake: Lake) -> None:
    create_namespace(lake, "a b")
    create_namespace(lake, "a b", "c")
    properties = lake.client.get(at("namespaces", "a b\x1fc")).json()["properties"]
    table = create(lake, "a b\x1fc", "t").json()["metadata"]["location"]
    assert table.rpartition("/")[0] == properties["location"]
    update = {"updates": {"location": "file:///elsewhere", "owner": "me"}}
    lake.client.post(f"{at('namespaces', 'a b')}/properties", json=update)
    assert lake.client.get(at("namespaces", "a b")).json()["properties"] == update["updates"]


@pytest.mark.parametrize("odd", [odd for odd in ODD if len(odd) < 100])
def test_any_name_is_shown_by_the_management_api(lake: Lake, odd: str) -> None:
    client, root = lake.client, "/api/v1/catalogs/lake"
    namespace, table = join_name([odd]), join_name([odd, odd])
    created = client.post(f"{root}/namespaces", json={"name": namespace})
    assert (created.status_code, created.json()["name"]) == (201, namespace)
    assert namespace in [namespace_["name"] for namespace_ in client.get(f"{root}/namespaces").json()["items"]]
    body = {"name": table, "columns": [{"name": "id", "type": "long"}], "primary_key": ["id"]}
    created = client.post(f"{root}/tables", json=body)
    assert created.status_code == 201, created.text
    shown = client.get(f"{root}/tables/{quote(table, safe='')}").json()
    assert (shown["namespace"], shown["name"], shown["kind"]) == (namespace, odd, "keyed")
    assert shown["stores"]["base"]["name"] == join_name([odd, odd, "base"])
    for part in ("snapshots", "files", "versions", "history", "jobs", "policy", "explain"):
        assert client.get(f"{root}/tables/{quote(table, safe='')}/{part}").status_code == 200, part
    listed = client.get(f"{root}/tables", params={"namespace": namespace}).json()["items"]
    assert [identifier["name"] for identifier in listed] == [odd]
    assert client.get(f"{root}/tables", params={"search": odd}).json()["items"] == listed
    policy = client.request("PUT", f"{root}/policy", params={"namespace": namespace}, json={"settings": {}})
    assert policy.status_code == 200, policy.text
    view = client.get(at("namespaces", f"{odd}\x1f{odd}", "views", "merged")).json()["metadata"]
    assert view["versions"][0]["default-namespace"] == [odd, odd]
    assert client.get(at("namespaces", odd, "tables", odd)).json()["metadata"]["snapshots"] == []
    assert client.delete(f"{root}/tables/{quote(table, safe='')}").is_success
    assert client.delete(f"{root}/namespaces/{quote(namespace, safe='')}").is_success


def test_a_slash_between_parts_and_one_inside_a_name_are_two_things(lake: Lake) -> None:
    client = lake.client
    create_namespace(lake, "db/tables")
    create(lake, "db/tables", "t")
    assert client.get("/iceberg/v1/lake/namespaces/db%2Ftables").json()["namespace"] == ["db/tables"]
    assert client.get("/iceberg/v1/lake/namespaces/db%2ftables/tables/t").status_code == 200
    assert client.get("/iceberg/v1/lake/namespaces/db/tables").json()["identifiers"] == []
    assert client.get("/iceberg/v1/lake/namespaces/db%252Ftables").status_code == 404
    for path in ("/iceberg/v1/la%2Fke/namespaces", "/iceberg/v1/lake/name%2Fspaces", "/api/v1/catalogs/la%2Fke"):
        answer = client.get(path)
        assert (answer.status_code, "\udc2f" in answer.text) == (404, False), path
    assert client.get("/iceberg/v1/lake/namespaces/db%ED%B0%AFtables").status_code == 404


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_a_name_is_refused_and_says_why(lake: Lake, wrong: str) -> None:
    client = lake.client
    refusals = [
        create_namespace(lake, wrong),
        create_namespace(lake, "db", wrong),
        create(lake, "db", wrong),
        create(lake, "db", wrong, **{"firn.primary-key": "id"}),
        create_view(lake, "db", wrong),
        client.post("/api/v1/catalogs/lake/namespaces", json={"name": wrong}),
        client.post("/api/v1/catalogs/lake/tables", json={"name": f"db.{wrong}", "columns": []}),
    ]
    for answer in refusals:
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["message"]
    if wrong not in (".", "..", "", "a\nb"):  # those are taken out of the URL, or reach no route
        assert client.get(at("namespaces", "db", "tables", wrong)).status_code == 400


def test_names_differ_by_case_unless_the_catalog_says_otherwise(lake: Lake) -> None:
    for name in ("orders", "Orders", "ORDERS"):
        assert create(lake, "db", name).status_code == 200
        assert create_namespace(lake, name).status_code == 200
    listed = lake.client.get(at("namespaces", "db", "tables")).json()["identifiers"]
    assert {identifier["name"] for identifier in listed} == {"orders", "Orders", "ORDERS"}


def _is_taken(answer: httpx.Response, *words: str) -> None:
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (409, "AlreadyExistsException"), answer.text
    assert all(word in error["message"] for word in words), error["message"]


def test_a_name_that_differs_in_case_only_is_refused_where_the_catalog_says_so(lake: Lake) -> None:
    client, where = lake.client, {"catalog": "folding"}
    assert create(lake, "db", "Straße", **where).status_code == 200
    _is_taken(create(lake, "db", "STRASSE", **where), "Table already exists: db.STRASSE", "the existing db.Straße")
    _is_taken(create_view(lake, "db", "strasse", **where), "db.Straße")
    _is_taken(create(lake, "db", "straße", catalog="folding", **{"firn.primary-key": "id"}), "db.Straße")
    _is_taken(create_namespace(lake, "DB", **where), "Namespace already exists: DB", "the existing db are one name")
    assert client.get(at("namespaces", "db", "tables", "strasse", **where)).status_code == 404  # lookups are exact
    assert create(lake, "db", "other", **where).status_code == 200
    other = {"namespace": ["db"], "name": "other"}
    rename = {"source": other, "destination": {"namespace": ["db"], "name": "STRASSE"}}
    _is_taken(client.post(at("tables", "rename", **where), json=rename), "Cannot rename db.other to db.STRASSE")
    rename["destination"] = {"namespace": ["db"], "name": "OTHER"}  # of its own name the case may change
    assert client.post(at("tables", "rename", **where), json=rename).status_code == 204
    assert client.get(at("namespaces", "db", "tables", "OTHER", **where)).status_code == 200


def test_a_keyed_table_and_a_namespace_do_not_share_a_folded_name(lake: Lake) -> None:
    where = {"catalog": "folding"}
    assert create(lake, "db", "Sales", **where, **{"firn.primary-key": "id"}).status_code == 200
    answer = create_namespace(lake, "db", "sales", **where)
    assert (answer.status_code, "db.Sales is a keyed table" in answer.text) == (409, True)
    assert create_namespace(lake, "db", "eu", **where).status_code == 200
    _is_taken(create(lake, "db", "EU", **where, **{"firn.primary-key": "id"}), "Namespace already exists: db.EU")


def test_a_namespace_that_a_table_brings_along_is_refused_too(lake: Lake) -> None:
    body = {"name": "DB.t", "columns": [{"name": "id", "type": "long"}]}
    answer = lake.client.post("/api/v1/catalogs/folding/tables", json=body)
    assert answer.status_code == 409
    assert "Namespace already exists: DB" in answer.json()["error"]["message"]


def test_of_two_that_create_a_name_at_once_one_succeeds(lake: Lake) -> None:
    _ = lake.client
    names = ["orders", "Orders", "ORDERS", "oRDERS"]
    with ThreadPoolExecutor(4) as pool:
        tables = list(pool.map(lambda name: create(lake, "db", name, catalog="folding").status_code, names))
        spaces = list(pool.map(lambda name: create_namespace(lake, name, catalog="folding").status_code, names))
    assert sorted(tables) == sorted(spaces) == [200, 409, 409, 409]
    listed = lake.client.get(at("namespaces", "db", "tables", catalog="folding")).json()["identifiers"]
    assert len(listed) == 1


def test_a_catalog_is_told_true_or_false_about_case(lake: Lake) -> None:
    body = {"name": "c", "warehouse": "file:///tmp/c", "properties": {CASE_INSENSITIVE: "yes"}}
    answer = lake.client.post("/api/v1/catalogs", json=body)
    assert (answer.status_code, "expected true or false" in answer.text) == (400, True)


def test_a_catalogs_name_is_as_long_as_the_database_takes(lake: Lake) -> None:
    for name, status in (("c" * 255, 201), ("c" * 256, 400), ("é" * 128, 400)):
        answer = lake.client.post("/api/v1/catalogs", json={"name": name, "warehouse": "file:///tmp/c"})
        assert answer.status_code == status, answer.text


COMPOSED, APART = "caf\u00e9", "cafe\u0301"
"""The same name, as two keyboards write it."""


@pytest.mark.parametrize("catalog", ["lake", "folding"])
@pytest.mark.parametrize(("first", "second"), [(COMPOSED, APART), (APART, COMPOSED), ("\u1112\u1161\u11ab", "한")])
def test_names_that_look_alike_are_one_name(lake: Lake, catalog: str, first: str, second: str) -> None:
    """Two tables of one look had each other's readers; who looks up a name still has to write it as it is."""
    assert create(lake, "db", first, catalog=catalog).status_code == 200
    for again in (create(lake, "db", second, catalog=catalog), create_view(lake, "db", second, catalog=catalog)):
        assert (again.status_code, "differ only in their Unicode code points" in again.text) == (409, True)
    assert create(lake, "db", "other", catalog=catalog).status_code == 200
    move = {"source": {"namespace": ["db"], "name": "other"}, "destination": {"namespace": ["db"], "name": second}}
    assert lake.client.post(at("tables", "rename", catalog=catalog), json=move).status_code == 409
    namespaces = at("namespaces", catalog=catalog)
    assert lake.client.post(namespaces, json={"namespace": [first]}).status_code == 200
    again = lake.client.post(namespaces, json={"namespace": [second]})
    assert (again.status_code, "differ only in their Unicode code points" in again.text) == (409, True)
    assert lake.client.get(at("namespaces", "db", "tables", second, catalog=catalog)).status_code == 404
    listed = lake.client.get(at("namespaces", "db", "tables", catalog=catalog)).json()["identifiers"]
    assert sorted(identifier["name"] for identifier in listed) == sorted([first, "other"])


def test_catalogs_that_look_alike_are_one_catalog(lake: Lake, tmp_path: Path) -> None:
    body = {"warehouse": (tmp_path / "more").as_uri()}
    created = lake.client.post("/api/v1/catalogs", json={"name": "\u1112\u1161\u11ab", **body})
    again = lake.client.post("/api/v1/catalogs", json={"name": "한", **body})
    assert (created.status_code, again.status_code) == (201, 409)
    assert "differ only in their Unicode code points" in again.json()["error"]["hint"]


def test_the_database_itself_holds_no_two_names_that_look_alike(lake: Lake) -> None:
    """Whatever comes past the services: two creations at once, and code that forgets to ask."""
    with ThreadPoolExecutor(2) as pool:
        statuses = list(pool.map(lambda name: create(lake, "db", name).status_code, (COMPOSED, APART)))
    assert sorted(statuses) == [200, 409]
