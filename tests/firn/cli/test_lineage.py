"""`firn table lineage` and `client.tables[…].lineage()`, against a real server."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx

import firn
from tests.command_line import Command

ID = [{"name": "id", "type": "long"}]


def test_a_table_shows_what_it_comes_from_and_what_reads_it(run: Command, client: firn.Client, server: str) -> None:
    client.tables.create("line.orders", ID)
    assert run("table", "lineage", "line.orders").out == "no lineage is known\n"
    catalog = client.catalog
    columns = {"fields": {"id": {"inputFields": [{"namespace": "pg", "name": "t", "field": "key"}]}}}
    event = {
        "eventType": "COMPLETE",
        "eventTime": datetime.now(UTC).isoformat(),
        "producer": "test",
        "job": {"namespace": "airflow", "name": "load"},
        "inputs": [{"namespace": "pg", "name": "t"}],
        "outputs": [
            {"namespace": "firn", "name": f"{catalog}.line.orders", "facets": {"columnLineage": columns}},
        ],
    }
    httpx.post(f"{server}/api/v1/lineage", json=event, trust_env=False).raise_for_status()
    graph = client.tables["line.orders"].lineage(direction="upstream", depth=1)
    assert [(node.kind, node.name, node.distance) for node in graph.nodes] == [
        ("table", "line.orders", 0),
        ("job", "load", -1),
        ("dataset", "t", -1),
    ]
    shown = run("table", "lineage", "line.orders", "--upstream")
    assert "airflow load" in shown.out
    assert "openlineage" in shown.out
    assert run("table", "lineage", "line.orders", "--downstream").out == "no lineage is known\n"
    assert "key → id" in run("table", "lineage", "line.orders", "--column", "id").out
    assert run("table", "lineage", "line.orders", "--json").json["table"] == "line.orders"
    refused = run("table", "lineage", "line.orders", "--upstream", "--downstream")
    assert refused.code == 2
    assert "exclude each other" in refused.err
