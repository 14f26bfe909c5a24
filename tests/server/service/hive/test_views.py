"""Views of a metastore: their states, and the Iceberg views that are made from them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from catalog.errors import Invalid, NotFound
from catalog.names import TableName
from server.service.hive.views import HiveViews, HiveViewState
from server.service.tables.views import ViewDefinition
from tests.factories import LAKE
from tests.hive_tables import ORC, a_hive_table, a_storage
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles


@pytest.fixture
def views(beside: BesideHive) -> HiveViews:
    services = beside.services
    return HiveViews(beside.database, beside.upgrades.index, services.namespaces, services.views)


def add_view(beside: BesideHive, name: str, query: str, columns: str = "id bigint", **facts: Any) -> str:
    storage = a_storage("", columns)
    table = a_hive_table(name=name, storage=storage, type="VIRTUAL_VIEW", **{"view_text": query, **facts})
    beside.metastore.add_table(table)
    return table.full_name


def upgrade(beside: BesideHive, table: HiveFiles) -> None:
    beside.start(table)
    beside.upgrades.activate()


def state(views: HiveViews, name: str) -> HiveViewState:
    (view,) = views.show(LAKE, [name])
    return view.state


def metadata(beside: BesideHive, name: str) -> Any:
    return json.loads(beside.services.views.load(LAKE, TableName(("db",), name)).text)


def test_a_view_waits_for_its_table_and_becomes_an_iceberg_view(beside: BesideHive, views: HiveViews) -> None:
    table = beside.hive_table()
    query = f"SELECT `id`, `v` FROM `db`.`{table.short}` WHERE `p` = 'x'"
    columns = "id bigint; v string"
    name = add_view(beside, "x", query, columns, parameters={"comment": "only x"})
    (view,) = views.show(LAKE, [name])
    assert (view.state, view.waits_for) == (HiveViewState.WAITING, (table.name,))
    with pytest.raises(Invalid, match="which Firn does not have yet"):
        views.create(LAKE, name)
    upgrade(beside, table)
    assert views.create(LAKE, "DB.X").state is HiveViewState.CREATED
    stored = metadata(beside, "x")
    (version,) = stored["versions"]
    assert version["representations"] == [{"type": "sql", "sql": query, "dialect": "spark"}]
    assert version["default-namespace"] == ["db"]
    assert [(field["name"], field["type"]) for field in stored["schemas"][0]["fields"]] == [
        ("id", "long"),
        ("v", "string"),
    ]
    assert stored["properties"]["comment"] == "only x"
    assert views.create(LAKE, name).state is HiveViewState.CREATED, "to create it again changes nothing"
    assert len(metadata(beside, "x")["versions"]) == 1


def test_a_changed_query_is_replaced_on_request(beside: BesideHive, views: HiveViews) -> None:
    table = beside.hive_table()
    upgrade(beside, table)
    name = add_view(beside, "x", f"SELECT id FROM {table.name}")
    views.create(LAKE, name)
    add_view(beside, "x", f"SELECT id, v FROM {table.name}", "id bigint; v string")
    assert state(views, name) is HiveViewState.CHANGED
    assert len(metadata(beside, "x")["versions"]) == 1, "nothing changes by itself"
    assert views.create(LAKE, name).state is HiveViewState.CREATED
    assert state(views, name) is HiveViewState.CREATED
    stored = metadata(beside, "x")
    current = next(item for item in stored["versions"] if item["version-id"] == stored["current-version-id"])
    assert current["representations"][0]["sql"] == f"SELECT `id`, `v` FROM `db`.`{table.short}`"


def test_a_view_of_a_view_comes_after_it(beside: BesideHive, views: HiveViews) -> None:
    table = beside.hive_table()
    upgrade(beside, table)
    first = add_view(beside, "x", f"SELECT id FROM {table.name}")
    second = add_view(beside, "y", "SELECT id FROM db.x")
    assert [view.state for view in views.show(LAKE, [first, second])] == [HiveViewState.READY, HiveViewState.WAITING]
    views.create(LAKE, first)
    assert state(views, second) is HiveViewState.READY
    assert views.create(LAKE, second).state is HiveViewState.CREATED


def test_what_is_not_the_same_in_spark_is_not_created(beside: BesideHive, views: HiveViews) -> None:
    table = beside.hive_table()
    upgrade(beside, table)
    name = add_view(beside, "x", f"SELECT my_udf(id) AS id FROM {table.name}")
    assert state(views, name) is HiveViewState.INEXACT
    with pytest.raises(Invalid, match="the function my_udf is not known"):
        views.create(LAKE, name)
    stored = a_hive_table(
        name="m", storage=a_storage("", "id bigint"), type="MATERIALIZED_VIEW", view_text=f"SELECT id FROM {table.name}"
    )
    beside.metastore.add_table(stored)
    assert state(views, "db.m") is HiveViewState.INEXACT
    odd = add_view(beside, "odd", f"SELECT id FROM {table.name}", "id interval")
    assert state(views, odd) is HiveViewState.INEXACT


def test_timestamps_of_orc_have_another_type(beside: BesideHive, views: HiveViews) -> None:
    beside.metastore.add_table(a_hive_table(name="o", storage=a_storage("file:/o", "at timestamp", serde=ORC)))
    (view,) = views.show(LAKE, [add_view(beside, "x", "SELECT `at` FROM `db`.`o`", "at timestamp")])
    assert view.state is HiveViewState.INEXACT
    assert "ORC" in view.query.reasons[0]


def test_a_name_of_somebody_else_is_left_alone(beside: BesideHive, views: HiveViews) -> None:
    table = beside.hive_table()
    upgrade(beside, table)
    name = add_view(beside, "x", f"SELECT id FROM {table.name}")
    schema = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "n", "type": "int", "required": False}]}
    version = {
        "version-id": 1,
        "schema-id": 0,
        "summary": {},
        "default-namespace": ["db"],
        "representations": [{"type": "sql", "sql": "SELECT 1 AS n", "dialect": "spark"}],
    }
    beside.services.views.create(LAKE, ViewDefinition(name=TableName(("db",), "x"), schema=schema, version=version))
    assert state(views, name) is HiveViewState.TAKEN
    with pytest.raises(Invalid, match="another table or view has its name"):
        views.create(LAKE, name)
    assert metadata(beside, "x")["versions"][0]["representations"][0]["sql"] == "SELECT 1 AS n"


def test_names_that_no_table_can_have_are_survived(beside: BesideHive, views: HiveViews) -> None:
    name = add_view(beside, "x", "SELECT id FROM `a.b`.`c.d`")
    assert state(views, name) is HiveViewState.INEXACT
    assert views.show(LAKE, ["nowhere.x"]) == []
    with pytest.raises(NotFound):
        views.create(LAKE, "db.nothing")
    with pytest.raises(NotFound):
        views.create(LAKE, beside.hive_table().name)
    with pytest.raises(Invalid):
        views.create(LAKE, "../x")
