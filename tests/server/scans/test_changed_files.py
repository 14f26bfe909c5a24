"""The route that lists changed files: how both ends are named, what is refused, and in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from catalog.ports.store import Database
from server.service.tables import file_changes
from tests.server.lake import ORDERS, PLAIN, Lake, a_lake
from tests.server.scans.lake_table import LakeTable

API = "/api/v1/catalogs/lake/tables"


@pytest.fixture
def lake(opened_sqlite: Any, tmp_path: Path) -> Lake:
    database: Database = opened_sqlite.database
    return a_lake(database, tmp_path)


def ask(client: httpx.Client, name: str = "db.plain", **params: str) -> httpx.Response:
    return client.get(f"{API}/{name}/changes/files", params=params)


def list_changes(client: httpx.Client, **params: str) -> dict[str, Any]:
    answer = ask(client, **params)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def snapshot_ids(table: LakeTable) -> list[str]:
    return [str(snapshot["snapshot-id"]) for snapshot in table.metadata["snapshots"]]


def test_files_come_with_their_deletes_on_both_sides(client: httpx.Client, table: LakeTable) -> None:
    first, last = snapshot_ids(table)
    answer = list_changes(client, since=first)
    assert (answer["since"]["snapshot_id"], answer["until"]["snapshot_id"]) == (first, last)
    assert answer["columns"][0] == "id"
    assert [change["before"]["deletes"] for change in answer["files"]] == [[], []]
    applied = {
        change["after"]["data_file"]["file-path"]: {
            answer["delete_files"][number]["file-path"] for number in change["after"]["deletes"]
        }
        for change in answer["files"]
    }
    vector, positions, equality = table.deletes
    assert applied == {table.data[0].path: {vector.path}, table.data[1].path: {positions.path, equality.path}}


def test_0_is_before_the_first_snapshot_and_a_snapshot_and_itself_differ_in_nothing(
    client: httpx.Client,
    table: LakeTable,
) -> None:
    first, last = snapshot_ids(table)
    everything = list_changes(client, since="0", until=first)
    assert everything["since"] == {"snapshot_id": None, "committed_at": None}
    assert [(change["before"], change["after"]["deletes"]) for change in everything["files"]] == [
        (None, []),
        (None, []),
    ]
    assert list_changes(client, since=last)["files"] == []
    back = list_changes(client, since=last, until=first)
    assert [change["after"]["deletes"] for change in back["files"]] == [[], []]


def test_ends_are_branches_tags_and_times_too(client: httpx.Client, table: LakeTable) -> None:
    first, _ = snapshot_ids(table)
    tag = {"type": "tag", "snapshot": first}
    assert client.put(f"{API}/db.plain/refs/v1", json=tag).status_code == 200
    assert len(list_changes(client, since="v1")["files"]) == 2
    assert list_changes(client, since="v1", until="main") == list_changes(client, since=first)
    assert list_changes(client, since="2100-01-01T00:00:00Z")["files"] == []


@pytest.mark.parametrize(
    ("since", "status", "words"),
    [
        ("12345", 409, "has no snapshot 12345: it has expired, or never was; the oldest that is left is"),
        ("9" * 60, 409, "has no snapshot 999"),
        ("yesterday", 400, "'yesterday' is no snapshot, branch or tag of db.plain, and no time with a zone"),
        ("2026-11-21T09:30:00", 400, "no time with a zone"),
        ("1999-01-01T00:00:00Z", 404, "no recorded snapshot"),
        ("0001-01-01T00:00:00+23:59", 400, "no time with a zone"),
        ("consumer:x", 400, "only keyed tables have consumers"),
        ("-1", 400, "is no snapshot"),
        ("'; DROP TABLE x", 400, "is no snapshot"),
        ("x" * 400, 422, "at most 300"),
        ("", 400, "is no snapshot"),
    ],
)
def test_what_names_no_snapshot_is_refused(
    client: httpx.Client,
    table: LakeTable,
    since: str,
    status: int,
    words: str,
) -> None:
    answer = ask(client, since=since)
    assert (answer.status_code, words in answer.text.replace('\\"', "'")) == (status, True), answer.text


def test_keyed_tables_views_and_names_of_nothing_are_refused(client: httpx.Client, lake: Lake) -> None:
    lake.create_keyed()
    assert "has a primary key" in ask(client, str(ORDERS), since="0").text
    assert "has a primary key" in ask(client, f"{ORDERS}.base", since="0").text
    assert ask(client, "db.nothing", since="0").status_code == 404
    lake.create(PLAIN)
    assert list_changes(client, since="0") == {
        "columns": ["id", *(field["name"] for field in lake.metadata(PLAIN)["schemas"][0]["fields"][1:])],
        "since": {"snapshot_id": None, "committed_at": None},
        "until": {"snapshot_id": None, "committed_at": None},
        "files": [],
        "delete_files": [],
    }


def test_too_many_files_are_refused(
    client: httpx.Client,
    table: LakeTable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(file_changes, "MOST_FILES", 1)
    answer = ask(client, since="0")
    assert (answer.status_code, "more than 1 files of db.plain changed" in answer.text) == (400, True)
