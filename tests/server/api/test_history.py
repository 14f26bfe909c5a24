"""The history of tables and views: each entry says when, who, by which engine, and what changed."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.names import TableName
from tests.factories import LAKE
from tests.server.api.client import Api
from tests.server.lake import BASE, CHANGE, PLAIN, altered, appended, set_property

ICEBERG = "/iceberg/v1/lake/namespaces/db"


def words(entry: Any) -> list[str]:
    return [change["description"] for change in entry["changes"]]


def commit(api: Api, *updates: Any, **headers: str) -> None:
    body = {"requirements": [], "updates": list(updates)}
    api.http.post(f"{ICEBERG}/tables/plain", json=body, headers=headers).raise_for_status()


def widened(api: Api, name: str) -> tuple[Any, Any]:
    metadata = api.lake.metadata(PLAIN)
    field = {"id": metadata["last-column-id"] + 1, "name": name, "type": "int", "required": False}
    schema = {**metadata["schemas"][-1], "fields": [*metadata["schemas"][-1]["fields"], field]}
    return {"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}


def test_every_commit_is_an_entry_with_what_it_changed(api: Api) -> None:
    api.lake.create()
    commit(api, *widened(api, "price"), set_property("owner", "ann"))
    commit(
        api,
        set_property("owner", "bob"),
        {"action": "remove-properties", "removals": ["write.parquet.compression-codec"]},
    )
    snapshot_id = api.lake.append(PLAIN)
    newest, properties, alter, create = api.history()
    assert newest["headline"] == "append: +10 rows, +1 file"
    assert (newest["snapshot_id"], newest["head_id"], newest["topics"]) == (
        str(snapshot_id),
        str(snapshot_id),
        ["data"],
    )
    assert words(newest) == [f"added snapshot {snapshot_id} (append)", f"created branch main at snapshot {snapshot_id}"]
    assert words(properties) == [
        "set property owner to bob (was ann)",
        "removed property write.parquet.compression-codec (was zstd)",
    ]
    assert (alter["operation"], alter["topics"], alter["schema_id"]) == ("alter", ["properties", "schema"], 1)
    assert alter["headline"] == "added column price (int); set property owner to ann"
    assert create["headline"] == "created with id long, note string"
    assert "set property write.parquet.compression-codec to zstd" in words(create)


def test_an_entry_names_the_engine_and_its_application(api: Api) -> None:
    api.lake.create()
    commit(api, set_property("a", "b"), **{"X-Client-Version": "Apache Iceberg 1.12.0 (commit 8a9b)"})
    summary = {"engine-name": "spark", "engine-version": "4.1.4", "app-id": "local-17"}
    change = appended(PLAIN, api.lake.metadata(PLAIN), summary=summary)
    commit(api, *change.updates, **{"X-Client-Version": "Apache Iceberg 1.12.0 (commit 8a9b)"})
    written, altered_, created = api.history()
    assert (written["engine"], written["app_id"], written["principal"]) == ("spark 4.1.4", "local-17", None)
    assert (altered_["engine"], altered_["app_id"]) == ("Apache Iceberg 1.12.0", None)
    assert created["engine"] is None


def test_what_changed_outlives_the_metadata_files(api: Api) -> None:
    api.lake.create()
    commit(api, set_property("owner", "ann"))
    now = api.lake.services.tables.load(LAKE, PLAIN).metadata_location or ""
    for path in api.lake.warehouse.rglob("*.metadata.json"):
        if path.name not in now:
            path.unlink()
    assert words(api.history()[0]) == ["set property owner to ann"]


def test_a_renamed_table_keeps_its_history_and_says_so(api: Api) -> None:
    api.filled(1)
    api.lake.services.tables.rename(LAKE, PLAIN, TableName(("db",), "named"))
    renamed, _, created = api.history("db.named")
    assert (renamed["operation"], renamed["table"]) == ("rename", "db.named")
    assert words(renamed) == ["renamed from db.plain to db.named"]
    assert created["table"] == "db.plain"


def test_a_dropped_table_leaves_the_drop_in_the_catalogs_events(api: Api) -> None:
    api.lake.create()
    api.lake.services.tables.drop(LAKE, PLAIN)
    (newest, *_) = api.http.get("/api/v1/events").json()["items"]
    assert (newest["operation"], words(newest)) == ("drop", ["dropped"])
    assert api.refused("GET", "db.plain/history")[0] == 404


def test_a_keyed_tables_history_has_its_stores_and_its_renames(api: Api) -> None:
    api.lake.create_keyed()
    api.lake.append(CHANGE)
    api.lake.services.keyed.rename(LAKE, TableName(("db",), "orders"), TableName(("db",), "sales"))
    renamed, written, *created = api.history("db.sales")
    assert renamed["table"] == "db.sales"
    assert written["table"] == "db.orders.change"
    assert {event["table"] for event in created} == {"db.orders.base", "db.orders.change"}


def test_a_schema_change_of_a_keyed_table_is_told_of_both_stores(api: Api) -> None:
    api.lake.create_keyed()
    metadata = api.lake.metadata(BASE)
    field = {"id": metadata["last-column-id"] + 1, "name": "price", "type": "int", "required": False}
    schema = {**metadata["schemas"][-1], "fields": [*metadata["schemas"][-1]["fields"], field]}
    api.lake.commit(
        altered(BASE, {"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1})
    )
    described = {
        event["table"]: words(event)
        for event in api.history("db.orders", kind="schema")
        if event["operation"] == "alter"
    }
    assert described == {
        "db.orders.base": ["added column price (int)"],
        "db.orders.change": ["added column price (int)"],
    }


def test_a_history_is_filtered_and_paged(api: Api) -> None:
    api.filled(4)
    commit(api, set_property("a", "1"))
    commit(api, set_property("a", "2"))
    api.put("db.plain/refs/v1", {"type": "tag"})
    assert [event["operation"] for event in api.history(kind="properties")] == ["properties", "properties", "create"]
    assert [event["operation"] for event in api.history(kind=["refs", "life"])] == ["reference", "create"]
    assert [event["operation"] for event in api.history(kind="data")] == ["append"] * 4
    first = api.get("db.plain/history", limit=2, kind="data")
    second = api.get("db.plain/history", limit=2, kind="data", cursor=first["next_cursor"])
    ids = [event["id"] for page in (first, second) for event in page["items"]]
    assert ids == sorted(ids, reverse=True)
    assert len(set(ids)) == 4
    assert second["next_cursor"] is None
    assert api.refused("GET", "db.plain/history", kind="nothing")[0] == 422


# --- views -----------------------------------------------------------------------------------------------------------


def version(sql: str, *, number: int = 1, schema_id: int = 0, engine: str = "spark") -> dict[str, Any]:
    return {
        "version-id": number,
        "timestamp-ms": 1_700_000_000_000,
        "schema-id": schema_id,
        "summary": {"engine-name": engine, "engine-version": "1"},
        "default-namespace": ["db"],
        "representations": [{"type": "sql", "dialect": engine, "sql": sql}],
    }


SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}


@pytest.fixture
def view(api: Api) -> Api:
    body = {"name": "v", "schema": SCHEMA, "view-version": version("select id\nfrom t"), "properties": {}}
    api.http.post(f"{ICEBERG}/views", json=body).raise_for_status()
    return api


def replaced(api: Api, sql: str, *updates: Any) -> None:
    added = {"action": "add-view-version", "view-version": version(sql, number=2)}
    current = {"action": "set-current-view-version", "view-version-id": -1}
    body = {"requirements": [], "updates": [added, current, *updates]}
    api.http.post(f"{ICEBERG}/views/v", json=body).raise_for_status()


def view_of(api: Api, method: str = "GET", path: str = "", **more: Any) -> Any:
    return api.http.request(method, f"/api/v1/catalogs/lake/views/db.v{path}", **more)


def test_a_views_history_shows_its_sql_line_by_line(view: Api) -> None:
    replaced(view, "select id + 1 as id\nfrom t", set_property("comment", "more"))
    newest, created = view.history("db.v")
    assert (newest["operation"], newest["engine"]) == ("replace view", "spark 1")
    (sql,) = [change for change in newest["changes"] if change["kind"] == "sql"]
    assert sql["description"] == "changed the SQL for spark"
    assert [(line["sign"], line["text"]) for line in sql["diff"]] == [
        ("-", "select id"),
        ("+", "select id + 1 as id"),
        (" ", "from t"),
    ]
    assert "set property comment to more" in words(newest)
    assert created["headline"] == "created with id"


def test_a_view_is_shown_with_all_its_versions(view: Api) -> None:
    replaced(view, "select 2 as id")
    view_history = view_of(view).json()
    assert [(version["version_id"], version["is_current"], version["sql"]) for version in view_history["versions"]] == [
        (2, True, {"spark": "select 2 as id"}),
        (1, False, {"spark": "select id\nfrom t"}),
    ]
    assert view_history["versions"][0]["columns"] == [{"name": "id", "type": "long", "comment": None}]


def test_a_view_goes_back_to_a_version_that_a_dry_run_has_shown(view: Api) -> None:
    replaced(view, "select 2 as id")
    dry = view_of(view, "POST", "/rollback?dry_run=true", json={"version_id": 1}).json()
    assert (dry["done"], dry["version"], dry["target"]) == (False, 2, 1)
    assert [change["description"] for change in dry["changes"]] == ["changed the SQL for spark"]
    assert view_of(view).json()["current_version"] == 2
    body = {"version_id": 1, "expected_version": dry["version"]}
    assert view_of(view, "POST", "/rollback", json=body).json()["done"]
    assert view_of(view).json()["current_version"] == 1
    newest = view.history("db.v")[0]
    assert (newest["operation"], newest["head_id"]) == ("rollback", "1")
    assert view_of(view, "POST", "/rollback", json=body).is_success  # the same again, as after a lost answer


def test_a_view_that_was_replaced_meanwhile_is_not_set_back(view: Api) -> None:
    replaced(view, "select 2 as id")
    view.lake.database.meanwhile.append(lambda: replaced(view, "select 3 as id"))
    answer = view_of(view, "POST", "/rollback", json={"version_id": 1})
    assert answer.status_code == 409
    assert answer.json()["error"]["message"] == "db.v reads as version 3, not as 2"
    assert view_of(view).json()["current_version"] == 3


def test_a_version_that_the_view_has_not_kept_is_not_found(view: Api) -> None:
    answer = view_of(view, "POST", "/rollback", json={"version_id": 9})
    assert (answer.status_code, answer.json()["error"]["hint"]) == (404, "it has kept 1")


def test_a_keyed_table_is_no_stored_view(api: Api) -> None:
    api.lake.create_keyed()
    assert api.http.get("/api/v1/catalogs/lake/views/db.orders").status_code == 404
