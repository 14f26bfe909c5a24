"""Lists by page: nothing that stays is missed or told twice, whatever is created and dropped between two pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog.names import TableName
from catalog.ports.store import Database
from tests.factories import LAKE
from tests.server.iceberg.create_requests import create_namespace, create_view
from tests.server.lake import Lake, a_lake

LISTS = {
    "namespaces": "/iceberg/v1/lake/namespaces?parent=db",
    "tables": "/iceberg/v1/lake/namespaces/db/tables",
    "views": "/iceberg/v1/lake/namespaces/db/views",
}
each_list = pytest.mark.parametrize("kind", LISTS)
STAYING = [f"n{number:02}" for number in range(0, 40, 4)]


@pytest.fixture
def lake(database: Database, tmp_path: Path) -> Lake:
    return a_lake(database, tmp_path)


def add(lake: Lake, kind: str, name: str) -> None:
    if kind == "tables":
        lake.create(TableName(("db",), name))
    else:
        answer = create_view(lake, "db", name) if kind == "views" else create_namespace(lake, "db", name)
        assert answer.status_code == 200, answer.text


def remove(lake: Lake, kind: str, name: str) -> None:
    drop: dict[str, Callable[[], object]] = {
        "tables": lambda: lake.services.tables.drop(LAKE, TableName(("db",), name)),
        "views": lambda: lake.services.views.drop(LAKE, TableName(("db",), name)),
        "namespaces": lambda: lake.services.namespaces.drop(LAKE, ("db", name)),
    }
    drop[kind]()


def ask(lake: Lake, kind: str, **params: object) -> dict[str, Any]:
    path, _, query = LISTS[kind].partition("?")
    sent = {key: str(value) for key, value in params.items()} | dict(
        pair.split("=") for pair in query.split("&") if pair
    )
    answer = lake.client.get(path, params=sent)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def names_in(page: dict[str, Any]) -> list[str]:
    return [identifier["name"] for identifier in page.get("identifiers", ())] + [
        namespace[-1] for namespace in page.get("namespaces", ())
    ]


def pages(lake: Lake, kind: str, size: int) -> Iterator[list[str]]:
    token: str | None = ""
    while token is not None:
        page = ask(lake, kind, pageSize=size, pageToken=token)
        token = page["next-page-token"]
        yield names_in(page)


@each_list
@pytest.mark.parametrize("size", [1, 4])
def test_pages_together_are_the_list(lake: Lake, kind: str, size: int) -> None:
    for name in STAYING:
        add(lake, kind, name)
    pages_read = list(pages(lake, kind, size))
    assert [name for page in pages_read for name in page] == STAYING
    assert all(len(page) == size for page in pages_read[:-1])
    whole = ask(lake, kind)
    assert (names_in(whole), whole["next-page-token"]) == (STAYING, None)


@each_list
def test_what_stays_is_told_once_while_names_come_and_go_on_both_sides_of_the_page(lake: Lake, kind: str) -> None:
    passing = [f"n{number:02}" for number in range(2, 40, 4)]
    for name in sorted([*STAYING, *passing]):
        add(lake, kind, name)
    listed_names: list[str] = []
    token: str | None = ""
    while token is not None:
        page = ask(lake, kind, pageSize=3, pageToken=token)
        names, token = names_in(page), page["next-page-token"]
        add(lake, kind, f"m{len(listed_names):02}")  # before what was told
        add(lake, kind, f"{names[-1]}x")  # right after it
        going = [name for name in names if name in passing]  # the name that the token stands for among them
        going += [name for name in passing if name > names[-1]][-1:]
        for name in going:
            remove(lake, kind, name)
        passing = [name for name in passing if name not in going]
        listed_names += names
    assert [name for name in listed_names if name in STAYING] == STAYING
    assert len(listed_names) == len(set(listed_names))


@each_list
@pytest.mark.parametrize(
    "params", [{"pageSize": 0}, {"pageSize": -1}, {"pageSize": "x"}, {"pageToken": "x"}, {"pageToken": "é"}]
)
def test_a_page_that_nobody_was_given_is_refused(lake: Lake, kind: str, params: dict[str, object]) -> None:
    path, _, query = LISTS[kind].partition("?")
    sent = {key: str(value) for key, value in params.items()} | dict(
        pair.split("=") for pair in query.split("&") if pair
    )
    answer = lake.client.get(path, params=sent)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, 400)
    assert error["type"] in ("IllegalArgumentException", "BadRequestException")


def test_a_token_of_another_list_is_refused(lake: Lake) -> None:
    for name in ("a", "b"):
        for kind in LISTS:
            add(lake, kind, f"{kind}_{name}")
    token = ask(lake, "tables", pageSize=1, pageToken="")["next-page-token"]
    answer = lake.client.get("/iceberg/v1/lake/namespaces", params={"pageToken": token})
    assert answer.status_code == 400
