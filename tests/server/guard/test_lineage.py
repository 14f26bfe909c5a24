"""Lineage shows each caller what they may read, and takes of each what they may say of a table."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from catalog.access.privileges import Grant, Privilege
from catalog.access.tokens import Secret
from catalog.iceberg.json import Json
from catalog.names import TableName
from server.service.tables.views import ViewDefinition
from tests.factories import LAKE
from tests.server.asgi import Client
from tests.server.guarded import SQL, Guarded, bearer, on
from tests.server.lake import COLUMNS

READ, WRITE = Privilege.READ, Privilege.WRITE


@pytest.fixture(scope="module")
def http(guarded_server: Guarded) -> Client:
    views = {
        ("open", "shown"): "SELECT id, note FROM lake.open.t",
        ("secret", "hidden"): "SELECT id, note FROM open.t",
        ("open", "behind"): "SELECT id, note FROM secret.hidden",
    }
    for (namespace, name), sql in views.items():
        text = {"type": "sql", "sql": sql, "dialect": "spark"}
        version = {**SQL, "representations": [text]}
        guarded_server.services.views.create(
            LAKE, ViewDefinition(name=TableName((namespace,), name), schema=COLUMNS, version=version)
        )
    guarded_server.services.lineage.collecting.run_once()
    return Client(guarded_server.app)


def show(http: Client, token: Secret, table: str = "open.t", **params: Any) -> Json:
    path = f"/api/v1/catalogs/lake/tables/{table}/lineage"
    answer = http.get(path, params={"depth": 5, **params}, headers=bearer(token))
    assert answer.status_code == 200, answer.text
    graph: Json = answer.json()
    return graph


def names(graph: Json) -> set[str]:
    return {node["name"] for node in graph["nodes"]}


def take(http: Client, token: Secret, inputs: list[Json], outputs: list[Json], job: str = "j") -> Json:
    event = {
        "eventType": "COMPLETE",
        "eventTime": datetime.now(UTC).isoformat(),
        "job": {"namespace": "airflow", "name": job},
        "inputs": inputs,
        "outputs": outputs,
    }
    answer = http.post("/api/v1/lineage", json=event, headers=bearer(token))
    assert answer.status_code == 201, answer.text
    taken: Json = answer.json()
    return taken


def table(name: str) -> Json:
    return {"namespace": "firn", "name": f"lake.{name}"}


def test_a_caller_sees_what_she_may_read_and_nothing_behind_others(guarded_server: Guarded, http: Client) -> None:
    reader = guarded_server.token("lineage-reader", Grant(on("open"), READ))
    lister = guarded_server.token("lineage-lister", Grant(on(), Privilege.LIST), Grant(on("open", table="t"), READ))
    assert names(show(http, guarded_server.admin)) == {"open.t", "open.shown", "secret.hidden", "open.behind"}
    assert names(show(http, reader)) == {"open.t", "open.shown"}
    assert names(show(http, lister)) == {"open.t"}
    assert names(show(http, reader, "open.behind")) == {"open.behind"}
    assert "secret" not in str(show(http, reader, column="id"))
    path = "/api/v1/catalogs/lake/tables/secret.t/lineage"
    assert http.get(path, headers=bearer(reader)).status_code == 404
    assert http.get(path, headers=bearer(lister)).status_code == 403


def test_an_event_needs_the_privileges_of_what_it_says(guarded_server: Guarded, http: Client) -> None:
    writer = guarded_server.token("lineage-writer", Grant(on("open"), WRITE))
    reader = guarded_server.token("lineage-reads", Grant(on("open"), READ))
    assert take(http, writer, [table("open.t")], [table("open.new")])["edges"] == 2
    assert take(http, reader, [table("open.t")], [table("open.t")], job="r") == {
        "edges": 1,
        "left_out": ["lake.open.t: an event about it needs write on the table"],
    }
    refusals = [take(http, writer, [], [table(name)])["left_out"] for name in ("secret.t", "secret.nothing")]
    assert [text.partition(":")[2] for (text,) in refusals] == [" an event about it needs write on the table"] * 2
    assert not {"r", "j"} & names(show(http, guarded_server.admin, "secret.t"))
    assert http.post("/api/v1/lineage", json={}).status_code == 401


def test_a_location_tells_nothing_of_a_hidden_table(guarded_server: Guarded, http: Client) -> None:
    writer = guarded_server.token("lineage-prober", Grant(on("open"), WRITE))
    loaded = guarded_server.services.tables.load(LAKE, TableName(("secret",), "t"))
    location = guarded_server.services.metadata.load(str(loaded.metadata_location)).parsed["location"]
    place = location.removeprefix("file://")
    answers = [
        take(http, writer, [{"namespace": "file", "name": name}], [], job="probe") for name in (place, f"{place}x")
    ]
    assert answers == [{"edges": 1, "left_out": []}] * 2
    assert "probe" not in names(show(http, guarded_server.admin, "secret.t"))


def test_columns_of_hidden_tables_are_left_out(guarded_server: Guarded, http: Client) -> None:
    writer = guarded_server.token("lineage-columns", Grant(on("open"), WRITE))
    fields = {"id": {"inputFields": [{**table("secret.t"), "field": "id"}, {**table("open.t"), "field": "note"}]}}
    output = {**table("open.new2"), "facets": {"columnLineage": {"fields": fields}}}
    take(http, writer, [table("open.t")], [output], job="columns")
    graph = show(http, guarded_server.admin, "open.t", column="note", direction="downstream")
    edge = next(edge for edge in graph["edges"] if edge["columns"] and edge["origin"] == "openlineage")
    assert [pair["source_column"] for pair in edge["columns"]] == ["note"]
    hidden = show(http, guarded_server.admin, "secret.t", column="id", direction="downstream")
    assert not any(edge["origin"] == "openlineage" for edge in hidden["edges"])
