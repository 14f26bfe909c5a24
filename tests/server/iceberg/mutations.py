"""Every request that changes something, with what it needs before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from catalog.iceberg.json import Json
from catalog.names import TableName
from tests.factories import LAKE
from tests.server.lake import COLUMNS, PLAIN, Lake, appended

VIEW: Json = {
    "version-id": 1,
    "timestamp-ms": 1,
    "schema-id": 0,
    "summary": {},
    "default-namespace": ["db"],
    "representations": [{"type": "sql", "sql": "select 1 as id", "dialect": "spark"}],
}
DB = "/iceberg/v1/lake/namespaces/db"


@dataclass(frozen=True)
class Mutation:
    """A request that changes something; `undo` makes it possible again, so that a second run would show."""

    method: str
    path: str
    body: Callable[[Lake], Json] | None = None
    prepare: Callable[[Lake], object] = lambda _lake: None
    undo: Callable[[Lake], object] = lambda _lake: None


def tables(lake: Lake) -> Any:
    return lake.services.tables


def view_of(lake: Lake, name: str = "v") -> str:
    body = {"name": name, "schema": COLUMNS, "view-version": VIEW, "properties": {}}
    answer = lake.client.post(f"{DB}/views", json=body)
    assert answer.status_code == 200, answer.text
    location: str = answer.json()["metadata-location"]
    return location


def drop_view(lake: Lake, name: str = "v") -> None:
    assert lake.client.delete(f"{DB}/views/{name}").status_code == 204


def drop_table(lake: Lake, name: str = "plain") -> None:
    assert lake.client.delete(f"{DB}/tables/{name}").status_code == 204


def dropped_table(lake: Lake) -> str:
    """The metadata of a table that was dropped: that of a live one cannot be registered a second time."""
    location = metadata_location(lake)
    drop_table(lake)
    return location


def dropped_view(lake: Lake) -> str:
    location = view_of(lake)
    drop_view(lake)
    return location


def table_again(lake: Lake) -> None:
    drop_table(lake, "other")
    lake.create()


def view_again(lake: Lake) -> None:
    drop_view(lake, "w")
    view_of(lake)


def keyed_again(lake: Lake) -> None:
    drop_keyed(lake, "sales")
    lake.create_keyed()


def drop_keyed(lake: Lake, name: str) -> None:
    lake.services.keyed.drop(LAKE, TableName(("db",), name))


def rename(source: str, to: str) -> Json:
    return {
        "source": {"namespace": ["db"], "name": source},
        "destination": {"namespace": ["db"], "name": to},
    }


def metadata_location(lake: Lake) -> str:
    location: str = tables(lake).load(LAKE, PLAIN).metadata_location
    return location


def set_twice(lake: Lake) -> None:
    lake.services.namespaces.change_properties(LAKE, ("db",), updates={"a": "2"}, removals=[])


def commit_body(lake: Lake) -> Json:
    change = appended(PLAIN, lake.metadata(PLAIN))
    return {"requirements": list(change.requirements), "updates": list(change.updates)}


def property_body(_lake: Lake) -> Json:
    return {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "1"}}]}


def staged_body(_lake: Lake) -> Json:
    creates: list[Json] = [
        {"action": "assign-uuid", "uuid": str(uuid4())},
        {"action": "add-schema", "schema": COLUMNS},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]
    return {"requirements": [{"type": "assert-create"}], "updates": creates}


MUTATIONS = {
    "create namespace": Mutation(
        "POST",
        "/iceberg/v1/lake/namespaces",
        lambda _: {"namespace": ["new"], "properties": {"a": "1"}},
        undo=lambda lake: lake.services.namespaces.drop(LAKE, ("new",)),
    ),
    "change namespace": Mutation(
        "POST", f"{DB}/properties", lambda _: {"updates": {"a": "1"}, "removals": ["b"]}, undo=set_twice
    ),
    "drop namespace": Mutation(
        "DELETE",
        "/iceberg/v1/lake/namespaces/old",
        prepare=lambda lake: lake.services.namespaces.create(LAKE, ("old",), {}),
        undo=lambda lake: lake.services.namespaces.create(LAKE, ("old",), {}),
    ),
    "create table": Mutation("POST", f"{DB}/tables", lambda _: {"name": "plain", "schema": COLUMNS}, undo=drop_table),
    "create keyed table": Mutation(
        "POST",
        f"{DB}/tables",
        lambda _: {"name": "orders", "schema": COLUMNS, "properties": {"firn.primary-key": "id"}},
        undo=lambda lake: drop_keyed(lake, "orders"),
    ),
    "create by commit": Mutation("POST", f"{DB}/tables/plain", staged_body, undo=drop_table),
    "commit": Mutation(
        "POST",
        f"{DB}/tables/plain",
        commit_body,
        prepare=lambda lake: lake.create(),
        undo=lambda lake: lake.append(PLAIN),
    ),
    "commit properties": Mutation(
        "POST",
        f"{DB}/tables/plain",
        property_body,
        prepare=lambda lake: lake.create(),
        undo=lambda lake: lake.append(PLAIN),
    ),
    "commit transaction": Mutation(
        "POST",
        "/iceberg/v1/lake/transactions/commit",
        lambda lake: {"table-changes": [{"identifier": {"namespace": ["db"], "name": "plain"}, **property_body(lake)}]},
        prepare=lambda lake: lake.create(),
        undo=lambda lake: lake.append(PLAIN),
    ),
    "drop table": Mutation(
        "DELETE", f"{DB}/tables/plain", prepare=lambda lake: lake.create(), undo=lambda lake: lake.create()
    ),
    "unregister table": Mutation(
        "POST", f"{DB}/tables/plain/unregister", prepare=lambda lake: lake.create(), undo=lambda lake: lake.create()
    ),
    "register table": Mutation(
        "POST",
        f"{DB}/register",
        lambda lake: {"name": "again", "metadata-location": dropped_table(lake)},
        prepare=lambda lake: lake.create(),
        undo=lambda lake: drop_table(lake, "again"),
    ),
    "rename table": Mutation(
        "POST",
        "/iceberg/v1/lake/tables/rename",
        lambda _: rename("plain", "other"),
        prepare=lambda lake: lake.create(),
        undo=table_again,
    ),
    "create view": Mutation(
        "POST",
        f"{DB}/views",
        lambda _: {"name": "v", "schema": COLUMNS, "view-version": VIEW, "properties": {}},
        undo=drop_view,
    ),
    "register view": Mutation(
        "POST",
        f"{DB}/register-view",
        lambda lake: {"name": "again", "metadata-location": dropped_view(lake)},
        undo=lambda lake: drop_view(lake, "again"),
    ),
    "commit view": Mutation(
        "POST",
        f"{DB}/views/v",
        lambda _: {"updates": [{"action": "set-properties", "updates": {"a": "1"}}]},
        prepare=view_of,
    ),
    "commit keyed table": Mutation(
        "POST",
        f"{DB}/tables/orders",
        lambda _: {"updates": [{"action": "set-properties", "updates": {"comment": "1"}}]},
        prepare=lambda lake: lake.create_keyed(),
    ),
    "drop view": Mutation("DELETE", f"{DB}/views/v", prepare=view_of, undo=view_of),
    "drop keyed table": Mutation(
        "DELETE",
        f"{DB}/tables/orders",
        prepare=lambda lake: lake.create_keyed(),
        undo=lambda lake: lake.create_keyed(),
    ),
    "rename view": Mutation(
        "POST",
        "/iceberg/v1/lake/views/rename",
        lambda _: rename("v", "w"),
        prepare=view_of,
        undo=view_again,
    ),
    "rename keyed table": Mutation(
        "POST",
        "/iceberg/v1/lake/tables/rename",
        lambda _: rename("orders", "sales"),
        prepare=lambda lake: lake.create_keyed(),
        undo=keyed_again,
    ),
}
