"""Writers over HTTP, and the refusals of their commits as engines see them."""

from __future__ import annotations

from typing import Any

import httpx

from tests.server.api.client import Api
from tests.server.lake import CHANGE, PLAIN, appended


def commit(api: Api, epoch: int, start: str, end: str) -> httpx.Response:
    """A commit of writer `orders eu` to the plain table, as an engine sends it."""
    summary = {
        "firn.writer-id": "orders eu",
        "firn.writer-epoch": str(epoch),
        "firn.position-from": start,
        "firn.position": end,
    }
    change = appended(PLAIN, api.lake.metadata(PLAIN), summary=summary)
    body: Any = {"requirements": change.requirements, "updates": change.updates}
    return api.http.post("/iceberg/v1/lake/namespaces/db/tables/plain", json=body)


def test_a_writer_registers_commits_and_is_fenced(api: Api) -> None:
    api.lake.create()
    registered = api.post("db.plain/writers/orders eu", None)
    assert (registered["name"], registered["epoch"], registered["position"]) == ("orders eu", 1, None)
    assert commit(api, 1, "none", "orders:0:10").is_success
    shown = api.get("db.plain/writers/orders eu")
    assert shown["position"] == "orders:0:10"
    assert shown["snapshot_id"] == str(api.lake.metadata(PLAIN)["current-snapshot-id"])
    moved = commit(api, 1, "none", "orders:0:10").json()["error"]
    assert (moved["code"], moved["type"]) == (400, "PositionMovedException")
    assert "'none'" in moved["message"]
    assert "'orders:0:10'" in moved["message"]
    assert api.post("db.plain/writers/orders eu", None)["position"] == "orders:0:10"
    fenced = commit(api, 1, "orders:0:10", "orders:0:20").json()["error"]
    assert (fenced["code"], fenced["type"]) == (400, "WriterFencedException")
    assert api.http.delete("/api/v1/catalogs/lake/tables/db.plain/writers/orders eu").status_code == 204
    assert [writer["fenced_at"] is not None for writer in api.get("db.plain/writers")["items"]] == [True]
    status, message, _ = api.refused("POST", "db.plain/writers/orders eu")
    assert (status, message.startswith("writer 'orders eu' was fenced for good at ")) == (409, True)


def test_the_writers_of_a_keyed_table_are_those_of_its_change_store(api: Api) -> None:
    api.lake.create_keyed()
    api.post("db.orders/writers/w", None)
    assert api.get(f"{CHANGE}/writers/w")["epoch"] == 1
    assert api.get("db.orders/writers")["items"] == api.get(f"{CHANGE}/writers")["items"]


def test_what_is_not_there_is_not_found(api: Api) -> None:
    api.lake.create()
    assert api.refused("GET", "db.plain/writers/w")[0] == 404
    assert api.refused("DELETE", "db.plain/writers/w")[0] == 404
    assert api.refused("POST", "db.nothing/writers/w")[0] == 404
    assert api.refused("POST", "db.plain/writers/" + "w" * 256)[0] == 400
