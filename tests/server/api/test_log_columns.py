"""Columns that drains add to tables, over HTTP."""

from __future__ import annotations

import json
from typing import Any

from tests.server.api.test_logs import AT, COLUMNS, LOG, clusters, create, http, lake
from tests.server.asgi import Client
from tests.server.kafka.fake import FakeClusters
from tests.server.lake import BASE, CHANGE, Lake

__all__ = ["clusters", "http", "lake"]


def add_columns(http: Client, name: str = "db.orders", **types: str) -> Any:
    columns = [{"name": column, "type": type_} for column, type_ in types.items()]
    return http.post(f"{AT}/{name}/log/columns", json={"columns": columns})


def columns_of(lake: Lake, store: Any) -> dict[str, Any]:
    metadata = lake.metadata(store)
    schema = next(each for each in metadata["schemas"] if each["schema-id"] == metadata["current-schema-id"])
    return {field["name"]: (field["id"], field["type"], field["required"]) for field in schema["fields"]}


def test_a_drain_adds_columns_to_both_stores_once(http: Client, lake: Lake) -> None:
    create(http)
    answer = add_columns(http, n="long", price="decimal(9,2)", NOTE="string", _op="string", **{"a.b": "long"})
    assert (answer.status_code, answer.json()["added"]) == (200, ["n", "price"])
    assert {*answer.json()["refused"]} == {"NOTE", "_op", "a.b"}
    base, change = columns_of(lake, BASE), columns_of(lake, CHANGE)
    assert {name: base[name][1:] for name in base} == {
        "id": ("long", True),
        "note": ("string", False),
        "n": ("long", False),
        "price": ("decimal(9,2)", False),
    }
    assert {name: change[name][0] for name in ("n", "price")} == {name: base[name][0] for name in ("n", "price")}
    version = lake.metadata(BASE)["current-schema-id"]
    again = add_columns(http, n="string", price="decimal(9,2)").json()
    assert (again, lake.metadata(BASE)["current-schema-id"]) == ({"added": ["n", "price"], "refused": {}}, version)
    assert columns_of(lake, BASE) == base, "a column that is there keeps its type"


def test_only_a_log_that_says_so_gets_columns(http: Client, lake: Lake) -> None:
    create(http, **{"firn.log.schema": "ignore"})
    refused = add_columns(http, n="long")
    assert (refused.status_code, "firn.log.schema is ignore" in refused.text) == (400, True)
    assert add_columns(http, "db.none", n="long").status_code == 404
    http.post(AT, json={"name": "db.plain", "columns": COLUMNS, "primary_key": ["id"]})
    assert add_columns(http, "db.plain", n="long").status_code == 404
    for types in (
        {},
        {"n": "list"},
        {"n": "decimal(99,1)"},
        {"n" * 256: "long"},
        {f"n{at}": "long" for at in range(101)},
    ):
        assert add_columns(http, **types).status_code in (400, 422), types
    assert "n" not in columns_of(lake, BASE)


def test_a_table_gets_no_columns_without_end(http: Client, lake: Lake) -> None:
    wide = [{"name": f"c{number}", "type": "long"} for number in range(998)]
    http.post(
        AT, json={"name": "db.orders", "columns": [*COLUMNS, *wide[:997]], "primary_key": ["id"], "properties": LOG}
    )
    answer = add_columns(http, first="long", second="long").json()
    assert (answer["added"], "1,000 columns" in answer["refused"]["second"]) == (["first"], True)


def test_a_check_says_what_becomes_of_values_without_a_column(http: Client, clusters: FakeClusters) -> None:
    clusters.produce("orders", (None, json.dumps({"id": 1, "note": "a", "n": 5, "gone": None}).encode()))
    for name, schema, text in (
        ("a", "add", "no columns gone, n: a drain adds them"),
        ("b", "ignore", "no columns gone, n: a drain ignores"),
    ):
        create(http, f"db.{name}", **{"firn.log.schema": schema})
        check = http.get(f"{AT}/db.{name}/log/check").json()
        assert any(text in finding["message"] for finding in check["findings"]), schema
        assert check["sample"][0]["problem"] is None
    create(http, "db.c", **{"firn.log.schema": "stop"})
    check = http.get(f"{AT}/db.c/log/check").json()
    assert check["sample"][0]["problem"] == "the table lacks the column n"
