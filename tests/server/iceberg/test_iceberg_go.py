"""iceberg-go, by the requests that it has sent, for the first tier; `integration/engines` runs it.

`iceberg-go.json` was recorded between a program that uses iceberg-go 0.7.0 and a Firn server: a namespace and a table
are created, rows appended, properties set with and without a requirement, rows read, the table renamed and dropped.
What is different each time stands there as `$uuid`, `$snapshot`, `$manifest-list` and `$now`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from server.files.manifests import Manifests
from server.files.storage import Storage
from tests.databases import OpenDatabase
from tests.server.lake import Lake, a_lake

RECORDED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "iceberg-go.json").read_text(encoding="utf-8"))
SNAPSHOT = 4_711_000_815


@pytest.fixture
def lake(opened_sqlite: OpenDatabase, tmp_path: Path) -> Lake:
    return a_lake(opened_sqlite.database, tmp_path)


def filled(value: Any, known: dict[str, Any]) -> Any:
    """The recorded value with what is different each time."""
    if isinstance(value, dict):
        return {key: filled(entry, known) for key, entry in value.items()}
    if isinstance(value, list):
        return [filled(entry, known) for entry in value]
    return known.get(value, value) if isinstance(value, str) else value


def test_every_request_of_iceberg_go_is_answered_as_it_was_recorded(lake: Lake) -> None:
    """`"requirements": null`, which it sends where it requires nothing, was refused."""
    known: dict[str, Any] = {}
    for recorded in RECORDED:
        answer = lake.client.request(
            recorded["method"], recorded["path"], headers=recorded["headers"], json=filled(recorded["body"], known)
        )
        assert answer.status_code == recorded["status"], (recorded, answer.text)
        loaded = answer.json() if answer.content else {}
        if "metadata" in loaded and not known:
            known = prepared(loaded["metadata"])
    assert any((recorded["body"] or {}).get("requirements", "") is None for recorded in RECORDED)


def prepared(metadata: dict[str, Any]) -> dict[str, Any]:
    """What the table has got, and a manifest list for the append to name."""
    location = metadata["location"]
    listed = f"{location}/metadata/snap-{SNAPSHOT}-0.avro"
    header = {"snapshot-id": str(SNAPSHOT), "sequence-number": "1"}
    Manifests(Storage(), metadata).write_list(listed, [], header)
    return {
        "$uuid": metadata["table-uuid"],
        "$snapshot": SNAPSHOT,
        "$manifest-list": listed,
        "$now": metadata["last-updated-ms"] + 1,
    }
