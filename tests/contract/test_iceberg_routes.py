"""The conformance table says of every route of the specification what /v1/config tells clients of it."""

from __future__ import annotations

import re
from pathlib import Path

from server.iceberg.config import ENDPOINTS
from server.store.schema import upgrade_schema
from server.store.session import Sessions, open_engine
from server.store.unit_of_work import SqlDatabase
from tests.server.lake import a_lake

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "iceberg-rest.md").read_text(encoding="utf-8")
ROUTES = (HERE / "iceberg-routes.txt").read_text(encoding="utf-8").splitlines()
ROWS = re.findall(r"^\| `([A-Z]+ /v1/\S+)` \| (\w+) \| (.+) \|$", PAGE, re.MULTILINE)
UNLISTED = {"GET /v1/config", "POST /v1/oauth/tokens"}
"""Routes that no server lists among its endpoints: clients have to know them before they ask."""


def test_every_route_of_the_specification_has_a_row() -> None:
    assert [route for route, _, _ in ROWS] == ROUTES


def test_a_route_is_marked_as_supported_if_clients_are_told_of_it() -> None:
    supported = {route for route, mark, _ in ROWS if mark == "yes"}
    assert supported - UNLISTED == set(ENDPOINTS)
    assert {mark for _, mark, _ in ROWS} == {"yes", "no"}


def test_routes_that_are_never_listed_are_marked_by_whether_they_are_there(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'firn.db'}")
    upgrade_schema(engine)
    client = a_lake(SqlDatabase(Sessions(engine)), tmp_path).client
    there = {
        route
        for route in UNLISTED
        for method, path in [route.split()]
        if client.request(method, f"/iceberg{path}").status_code != 404
    }
    assert there == {route for route, mark, _ in ROWS if route in UNLISTED and mark == "yes"}
