"""The four routes as clients see them: bodies, names of errors, and what is told of a file."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import httpx
import pytest

from catalog.ports.store import Database
from catalog.scan.mode import CONFIG, PROPERTY
from tests.factories import LAKE
from tests.server.iceberg.malformed import spoiled, text_of
from tests.server.lake import ORDERS, PLAIN, Lake, a_lake, altered, set_property
from tests.server.scans.lake_table import IDS, LakeTable

TABLES = "/iceberg/v1/lake/namespaces/db/tables"
EVERYTHING: dict[str, Any] = {
    "select": ["id"],
    "case-sensitive": False,
    "use-snapshot-schema": True,
    "stats-fields": ["id", "S"],
    "min-rows-requested": 10,
    "filter": {
        "type": "and",
        "left": {"type": "not", "child": {"type": "in", "term": "ID", "values": [5, 6]}},
        "right": {
            "type": "or",
            "left": {"type": "eq", "term": {"type": "transform", "transform": "bucket[4]", "term": "s"}, "value": 1},
            "right": {"type": "lt", "left": {"type": "reference", "name": "d"}, "right": "2030-01-01"},
        },
    },
}
JAVA = "Apache Iceberg 1.12.0"
"""A client that knows `scan-planning-mode`."""


@pytest.fixture
def lake(opened_sqlite: Any, tmp_path: Path) -> Lake:
    database: Database = opened_sqlite.database
    return a_lake(database, tmp_path)


def planned(client: httpx.Client, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post(f"{TABLES}/plain/plan", json=body)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def test_files_are_told_with_the_deletes_they_refer_to(client: httpx.Client, table: LakeTable) -> None:
    answer = planned(client, {})
    assert (answer["status"], "plan-tasks" in answer) == ("completed", False)
    by_path = {task["data-file"]["file-path"]: task for task in answer["file-scan-tasks"]}
    first, two = (by_path[data.path] for data in table.data)
    assert first["data-file"] == {
        "spec-id": 0,
        "content": "data",
        "file-path": table.data[0].path,
        "file-format": "parquet",
        "partition": ["2024-10-05"],
        "file-size-in-bytes": 1000,
        "record-count": 1,
        "first-row-id": 0,
    }
    assert first["residual-filter"] is True
    deletes = answer["delete-files"]
    (vector,) = (deletes[number] for number in first["delete-file-references"])
    assert (vector["content"], vector["file-format"]) == ("position-deletes", "puffin")
    assert (vector["content-offset"], vector["content-size-in-bytes"]) == (4, 40)
    assert vector["referenced-data-file"] == table.data[0].path
    equality, positions = (deletes[number] for number in two["delete-file-references"])
    assert (equality["content"], equality["equality-ids"]) == ("equality-deletes", [IDS["id"]])
    assert positions["referenced-data-file"] == table.data[1].path  # what the bounds of its paths say, said plainly


def test_statistics_are_told_of_the_columns_asked_for_alone(client: httpx.Client, table: LakeTable) -> None:
    file = planned(client, {"stats-fields": ["d", "dec"]})["file-scan-tasks"][0]["data-file"]
    wanted = [IDS["d"], IDS["dec"]]
    assert file["value-counts"] == {"keys": wanted, "values": [1, 1]}
    assert file["null-value-counts"] == {"keys": wanted, "values": [0, 0]}
    assert file["lower-bounds"] == {"keys": wanted, "values": ["2024-10-05", "0.01"]}
    assert file["upper-bounds"] == file["lower-bounds"]
    assert "lower-bounds" not in planned(client, {"select": ["d"]})["file-scan-tasks"][0]["data-file"]
    assert table.data


def test_residuals_leave_out_what_partitions_have_settled(client: httpx.Client, table: LakeTable) -> None:
    day = {"type": "eq", "term": "D", "value": "2024-10-05"}
    number = {"type": "gt", "term": "id", "value": 0}
    answer = planned(client, {"filter": {"type": "and", "left": day, "right": number}, "case-sensitive": False})
    (task,) = answer["file-scan-tasks"]
    assert task["data-file"]["file-path"] == table.data[0].path
    assert task["residual-filter"] == {
        "type": "and",
        "left": {"type": "eq", "term": "d", "value": "2024-10-05"},
        "right": number,
    }
    whole_day = {"type": "eq", "term": {"type": "transform", "transform": "day", "term": "d"}, "value": "2024-10-05"}
    (task,) = planned(client, {"filter": whole_day})["file-scan-tasks"]
    assert task["residual-filter"] is True


BAD: list[Any] = [
    {"filter": None},
    {"filter": 1},
    {"filter": []},
    {"filter": {}},
    {"filter": {"type": "like", "term": "s", "value": "x"}},
    {"filter": {"type": "eq", "term": "nowhere", "value": 1}},
    {"filter": {"type": "eq", "term": "ID", "value": 1}},
    {"filter": {"type": "eq", "term": "id"}},
    {"filter": {"type": "eq", "term": "id", "value": None}},
    {"filter": {"type": "eq", "term": "id", "value": "one"}},
    {"filter": {"type": "eq", "term": "id", "value": 1, "values": [1]}},
    {"filter": {"type": "eq", "term": "d", "value": "2024-13-01"}},
    {"filter": {"type": "eq", "term": "flag", "value": 1}},
    {"filter": {"type": "eq", "term": "x", "value": "NaN"}},
    {"filter": {"type": "in", "term": "id", "values": 1}},
    {"filter": {"type": "in", "term": "id", "values": [None]}},
    {"filter": {"type": "is-null", "term": "id", "value": 1}},
    {"filter": {"type": "is-nan", "term": "id"}},
    {"filter": {"type": "starts-with", "term": "id", "value": "1"}},
    {
        "filter": {
            "type": "starts-with",
            "term": {"type": "transform", "transform": "bucket[2]", "term": "s"},
            "value": "a",
        }
    },
    {"filter": {"type": "eq", "term": {"type": "transform", "transform": "hour", "term": "s"}, "value": 1}},
    {"filter": {"type": "eq", "term": {"type": "transform", "transform": "bucket[x]", "term": "s"}, "value": 1}},
    {"filter": {"type": "eq", "term": {"type": "transform", "transform": "sha", "term": "s"}, "value": 1}},
    {"filter": {"type": "eq", "left": {"type": "apply", "function": "f", "arguments": []}, "right": 1}},
    {"filter": {"type": "and", "left": True}},
    {"filter": {"type": "not"}},
    {"snapshot-id": 1},
    {"snapshot-id": "1"},
    {"snapshot-id": 1, "start-snapshot-id": 1, "end-snapshot-id": 2},
    {"start-snapshot-id": 1},
    {"end-snapshot-id": 1},
    {"stats-fields": ["nowhere"]},
    {"stats-fields": "id"},
    {"select": [1]},
    {"case-sensitive": "no"},
    {"min-rows-requested": -1},
    {"min-rows-requested": "all"},
    [],
    "x",
]


@pytest.mark.parametrize("body", BAD, ids=repr)
def test_bad_requests_are_answered_400_in_the_specifications_shape(
    client: httpx.Client, table: LakeTable, body: Any
) -> None:
    answer = client.post(f"{TABLES}/plain/plan", json=body)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["code"] == 400
    assert error["type"] in ("IllegalArgumentException", "BadRequestException")
    assert error["message"]
    assert table.data


def test_spoiled_requests_never_end_in_a_server_error(client: httpx.Client, table: LakeTable) -> None:
    for number in range(400):
        body = spoiled(EVERYTHING, random.Random(number))
        headers = {"content-type": "application/json"}
        answer = client.post(f"{TABLES}/plain/plan", content=text_of(body), headers=headers)
        assert answer.status_code in (200, 400), (answer.text, body)
        if answer.status_code == 200:
            known = {task["data-file"]["file-path"] for task in answer.json()["file-scan-tasks"]}
            assert known <= {data.path for data in table.data}


@pytest.mark.parametrize(
    ("method", "path", "body", "name"),
    [
        ("POST", "plain/tasks", {"plan-task": "x"}, "NoSuchPlanTaskException"),
        ("GET", "plain/plan/x", None, "NoSuchPlanIdException"),
        ("DELETE", "plain/plan/x", None, "NoSuchPlanIdException"),
        ("GET", "plain/plan/whole-x", None, "NoSuchPlanIdException"),
        ("POST", "nowhere/plan", {}, "NoSuchTableException"),
        ("POST", "nowhere/tasks", {"plan-task": "0ddbf4b8-0b34-4f8f-9c9c-5c3e0a8a0000.0"}, "NoSuchTableException"),
        ("GET", "nowhere/plan/0ddbf4b8-0b34-4f8f-9c9c-5c3e0a8a0000", None, "NoSuchTableException"),
        ("GET", "nowhere/plan/whole-x", None, "NoSuchTableException"),
        ("DELETE", "nowhere/plan/whole-x", None, "NoSuchTableException"),
    ],
)
def test_what_does_not_exist_is_404_under_the_specifications_name(
    client: httpx.Client, table: LakeTable, method: str, path: str, body: Any, name: str
) -> None:
    answer = client.request(method, f"{TABLES}/{path}", json=body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, name)
    assert table.data


def test_a_task_must_be_named(client: httpx.Client, table: LakeTable) -> None:
    assert client.post(f"{TABLES}/plain/tasks", json={}).status_code == 400
    assert table.data


def test_clients_are_told_who_plans_only_where_somebody_asked(client: httpx.Client, lake: Lake) -> None:
    lake.create()
    client.headers["X-Client-Version"] = JAVA
    before = client.get(f"{TABLES}/plain")
    assert before.json()["config"] == {}
    lake.commit(altered(PLAIN, set_property(PROPERTY, "server")))
    after = client.get(f"{TABLES}/plain", headers={"If-None-Match": before.headers["ETag"]})
    assert after.json()["config"] == {CONFIG: "server"}


def test_the_stores_of_keyed_tables_are_planned_by_clients_whatever_they_ask(client: httpx.Client, lake: Lake) -> None:
    """Java reads a null `_last_updated_sequence_number` from files that a server has planned."""
    client.headers["X-Client-Version"] = JAVA
    lake.create_keyed(ORDERS, **{PROPERTY: "server"})
    pin = lake.services.keyed.pin(LAKE, ORDERS)
    for name in ("base", "change", pin.base_name, pin.change_name):
        answer = client.get(f"/iceberg/v1/lake/namespaces/db%1Forders/tables/{name}")
        assert answer.json()["config"] == {CONFIG: "client"}
