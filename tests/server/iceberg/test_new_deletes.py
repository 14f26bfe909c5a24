"""Delete files that engines bring to the stores of keyed tables, whatever their summaries say."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from catalog.names import TableName
from server.files.manifests import Content, Manifests, Status
from server.files.storage import Storage
from tests.databases import OpenDatabase
from tests.server.lake import BASE, CHANGE, ORDERS, Lake, a_lake
from tests.server.service.dropping import append_files

FLINK = {"operation": "overwrite", "added-equality-deletes": "1", "added-equality-delete-files": "1"}


@pytest.fixture
def lake(opened_sqlite: OpenDatabase, tmp_path: Path) -> Lake:
    lake = a_lake(opened_sqlite.database, tmp_path)
    lake.create_keyed()
    return lake


def commit(
    lake: Lake,
    summary: dict[str, str],
    *contents: Content,
    name: TableName = BASE,
    place: str | None = None,
    merged: bool = False,
) -> httpx.Response:
    """A snapshot with delete files of these kinds over what is there; or with its delete manifests written anew."""
    metadata = lake.metadata(name)
    snapshot_id = uuid4().int >> 66
    manifests = Manifests(Storage(), metadata)
    parent = current_snapshot(metadata)
    lines: list[dict[str, Any]] = [] if parent is None else manifests.of_snapshot(parent)
    number = metadata["last-sequence-number"] + 1
    at = place or f"{metadata['location']}/metadata"
    if merged:
        contents = tuple(Content(e["data_file"]["content"]) for line in lines for e in manifests.entries(line))
        contents = tuple(kind for kind in contents if kind is not Content.DATA)
        lines = [line for line in lines if not line["content"]]
    for content in contents:
        entry = _entry(metadata, content, snapshot_id)
        if merged:
            entry |= {"status": Status.EXISTING, "sequence_number": 1, "file_sequence_number": 1}
        manifest = manifests.write(f"{at}/{uuid4()}-m0.avro", [entry], manifests.spec(0), content, snapshot_id)
        lines.append({**manifest, "sequence_number": number, "min_sequence_number": 1})
    listed = f"{at}/snap-{snapshot_id}.avro"
    manifests.write_list(listed, lines, {"snapshot-id": str(snapshot_id), "sequence-number": str(number)})
    snapshot = _snapshot(metadata, snapshot_id, listed, summary)
    head = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    path = f"/iceberg/v1/lake/namespaces/db%1Forders/tables/{name.name}"
    return lake.client.post(path, json={"updates": [{"action": "add-snapshot", "snapshot": snapshot}, head]})


def _snapshot(metadata: Json, snapshot_id: int, manifest_list: str, summary: dict[str, str]) -> Json:
    """A snapshot of no new row after the table's head."""
    parent = current_snapshot(metadata)
    snapshot: Json = {
        "snapshot-id": snapshot_id,
        "sequence-number": metadata["last-sequence-number"] + 1,
        "timestamp-ms": metadata["last-updated-ms"] + 1,
        "manifest-list": manifest_list,
        "schema-id": 0,
        "summary": summary,
    }
    snapshot |= {} if parent is None else {"parent-snapshot-id": parent["snapshot-id"]}
    snapshot |= {"first-row-id": metadata["next-row-id"], "added-rows": 0} if metadata["format-version"] > 2 else {}
    return snapshot


def _entry(metadata: Json, content: Content, snapshot_id: int) -> dict[str, Any]:
    file = {
        "content": content,
        "file_path": f"{metadata['location']}/data/{uuid4()}.parquet",
        "file_format": "PARQUET",
        "partition": {},
        "record_count": 1,
        "file_size_in_bytes": 1,
        "equality_ids": [1] if content is Content.EQUALITY_DELETES else None,
    }
    return {"status": Status.ADDED, "snapshot_id": snapshot_id, "data_file": file}


@pytest.mark.parametrize("version", ["2", "3"])
def test_upserts_of_flink_into_base_are_refused_and_told_where_to_go(
    opened_sqlite: OpenDatabase, tmp_path: Path, version: str
) -> None:
    """They were accepted while nothing was pending, and from then on client.scan could not read the table."""
    lake = a_lake(opened_sqlite.database, tmp_path)
    lake.create_keyed(ORDERS, **{"format-version": version})
    append_files(lake, BASE)
    before = lake.metadata(BASE)
    for summary in (FLINK, {"operation": "overwrite"}, {"operation": "delete"}, {"operation": "replace"}):
        answer = commit(lake, summary, Content.EQUALITY_DELETES)
        assert answer.status_code == 409, summary
        message = answer.json()["error"]["message"]
        assert "equality deletes are not allowed on the base store" in message
        assert "Flink may upsert into the keyed table's own name" in message
    assert lake.metadata(BASE) == before


def test_the_change_store_takes_no_deletes_that_call_themselves_an_append(lake: Lake) -> None:
    append_files(lake, CHANGE)
    for content in (Content.EQUALITY_DELETES, Content.POSITION_DELETES):
        answer = commit(lake, {"operation": "append"}, content, name=CHANGE)
        assert answer.status_code == 409
    assert (
        "equality deletes are not allowed on the change store"
        in commit(lake, {"operation": "append"}, Content.EQUALITY_DELETES, name=CHANGE).text
    )
    assert lake.keyed().pending_commits == 1


def test_position_deletes_of_engines_go_into_base_while_nothing_is_pending(lake: Lake) -> None:
    append_files(lake, BASE)
    assert commit(lake, {"operation": "append"}, Content.POSITION_DELETES).status_code == 409
    assert commit(lake, {"operation": "delete"}, Content.POSITION_DELETES).status_code == 200
    append_files(lake, CHANGE)
    answer = commit(lake, {"operation": "delete"}, Content.POSITION_DELETES)
    assert (answer.status_code, "merge first" in answer.text) == (409, True)
    assert commit(lake, {"operation": "append"}, Content.POSITION_DELETES).status_code == 409


def test_an_append_may_keep_and_write_anew_the_delete_manifests_that_are_there(lake: Lake) -> None:
    append_files(lake, BASE)
    assert commit(lake, {"operation": "delete"}, Content.POSITION_DELETES).status_code == 200
    assert commit(lake, {"operation": "append"}).status_code == 200
    assert commit(lake, {"operation": "append"}, merged=True).status_code == 200


def test_manifests_of_a_store_lie_in_its_directory_and_can_be_read(lake: Lake, tmp_path: Path) -> None:
    """The server reads them with rights of its own."""
    answer = commit(lake, {"operation": "append"}, Content.POSITION_DELETES, place=(tmp_path / "away").as_uri())
    assert answer.is_client_error
    assert "away" in answer.json()["error"]["message"]
    metadata = lake.metadata(BASE)
    listed = f"{metadata['location']}/metadata/snap-1.avro"
    Storage().write_new(listed, b"no manifest list")
    snapshot: Json = {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": metadata["last-updated-ms"] + 1,
        "manifest-list": listed,
        "first-row-id": 0,
        "added-rows": 0,
        "summary": {"operation": "append"},
    }
    head = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}
    path = "/iceberg/v1/lake/namespaces/db%1Forders/tables/base"
    body = {"updates": [{"action": "add-snapshot", "snapshot": snapshot}, head]}
    answer = lake.client.post(path, json=body)
    assert (answer.status_code, listed in answer.text) == (400, True)
