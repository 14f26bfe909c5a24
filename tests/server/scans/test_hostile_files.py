"""Manifest lists and manifests that users have written to hurt: plans are refused, and the server goes on."""

from __future__ import annotations

import json
import os
import shutil
import socket
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog.files.data_file import DataFileEntry, FileStats
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.names import TableName
from server.files.avro_writer import encode_long
from server.files.manifests import Manifests
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from tests.databases import OpenDatabase
from tests.server.lake import PLAIN, Lake, a_lake, appended

HIDDEN = TableName(("db",), "hidden")
PLAN = "/iceberg/v1/lake/namespaces/db/tables/plain/plan"
_MARK = b"0" * 16
NESTED = {"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", "r"]}]}
EMPTY_ITEMS = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "x", "type": {"type": "array", "items": "null"}}],
}
LINE = {
    "type": "record",
    "name": "manifest_file",
    "fields": [{"name": "manifest_path", "type": "string", "field-id": 500}],
}


@pytest.fixture
def lake(opened_sqlite: OpenDatabase, tmp_path: Path) -> Lake:
    lake = a_lake(opened_sqlite.database, tmp_path)
    for name in (PLAIN, HIDDEN):
        lake.create(name)
    return lake


def committed(lake: Lake) -> Path:
    """Where the manifest list of a snapshot is to be, which is written once the snapshot is committed."""
    change = appended(PLAIN, lake.metadata(PLAIN))
    lake.commit(change)
    manifest_list: str = change.updates[0]["snapshot"]["manifest-list"]
    return path_of(manifest_list)


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def filled(lake: Lake, name: TableName, file: str | None = None) -> Json:
    """A table with one data file, whose bounds are told by its manifest; its snapshot."""
    metadata = lake.metadata(name)
    stats = FileStats(
        location=file or f"{metadata['location']}/data/secret.parquet",
        size=1_000,
        record_count=10,
        value_counts={1: 10},
        lower_bounds={1: (42).to_bytes(8, "little")},
        upper_bounds={1: (4711).to_bytes(8, "little")},
    )
    now_ms = metadata["last-updated-ms"] + 1
    entries = [DataFileEntry(stats=stats, partition=())]
    snapshot_update = write_snapshot(Storage(), metadata, entries, (), snapshot_id=77, now_ms=now_ms)
    lake.commit(TableCommit(name=name, requirements=snapshot_update.requirements(), updates=snapshot_update.updates()))
    return dict(snapshot_update.snapshot)


def container(schema: Any, count: int, data: bytes, codec: bytes = b"null") -> bytes:
    facts = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec}
    pairs = b"".join(encode_long(len(text)) + text for pair in facts.items() for text in pair)
    block = encode_long(count) + encode_long(len(data)) + data + _MARK
    return b"Obj\x01" + encode_long(len(facts)) + pairs + b"\x00" + _MARK + block


def packed_zeros(size: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(bytes(size)) + packer.flush()


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        here = Path.cwd()
        os.chdir(path.parent)  # names of sockets are short
        try:
            bound.bind(path.name)
        finally:
            os.chdir(here)


SPECIAL: dict[str, Callable[[Path], Any]] = {
    "a pipe": os.mkfifo,
    "a directory": Path.mkdir,
    "a socket": a_socket,
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a link to /dev/stdin": lambda path: path.symlink_to("/dev/stdin"),
    "a link to a file of the system": lambda path: path.symlink_to("/proc/self/maps"),
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_a_manifest_list_that_is_no_regular_file_is_refused_at_once(lake: Lake, kind: str) -> None:
    """Planning waited for ever for a pipe, and read /dev/zero until memory ended."""
    listed = committed(lake)
    listed.parent.mkdir(parents=True, exist_ok=True)
    SPECIAL[kind](listed)
    answer = lake.client.post(PLAN, json={})
    assert answer.status_code == 400, answer.text


HOSTILE: dict[str, Callable[[], bytes]] = {
    "a type that holds itself": lambda: container(NESTED, 1, b"\x02" * 3_000_000 + b"\x00"),
    "a list of a type without bytes": lambda: container(EMPTY_ITEMS, 1, encode_long(1 << 40) + b"\x00"),
    "more records than bytes": lambda: container(LINE, 1 << 40, b"\x02a"),
    "a block that unpacks to 200 MiB": lambda: container(LINE, 1, packed_zeros(200 << 20), b"deflate"),
    "lines without a path": lambda: container({**LINE, "fields": [{"name": "other", "type": "string"}]}, 1, b"\x02a"),
    "no Avro at all": lambda: b"{}",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_manifest_list_is_damaged_and_the_server_lives(lake: Lake, kind: str) -> None:
    """A type that held itself ended the process; the others took all memory, or time without end."""
    listed = committed(lake)
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.write_bytes(HOSTILE[kind]())
    answer = lake.client.post(PLAN, json={})
    assert answer.status_code in (400, 503), answer.text
    assert str(listed.name) in answer.text


def test_a_plan_with_stats_fields_leaks_no_bounds_of_a_hidden_tables_manifest(lake: Lake) -> None:
    """The list is written once the commit has been checked, and names another table's manifest."""
    snapshot = filled(lake, HIDDEN)
    manifests = Manifests(Storage(), lake.metadata(HIDDEN)).of_snapshot(snapshot)
    listed = committed(lake)
    Manifests(Storage(), lake.metadata(PLAIN)).write_list(listed.as_uri(), manifests, {})
    answer = lake.client.post(PLAN, json={"stats-fields": ["id"]})
    assert (answer.status_code, "secret.parquet" in answer.text, "4711" in answer.text) == (400, False, False)


def test_a_plan_of_a_list_that_is_a_link_to_a_hidden_tables_is_refused_though_it_is_in_memory(lake: Lake) -> None:
    snapshot = filled(lake, HIDDEN)
    assert lake.client.post(PLAN.replace("plain", "hidden"), json={}).status_code == 200
    committed(lake).symlink_to(path_of(snapshot["manifest-list"]))
    answer = lake.client.post(PLAN, json={"stats-fields": ["id"]})
    assert (answer.status_code, "secret.parquet" in answer.text) == (400, False)


def test_a_plan_is_refused_where_a_directory_of_the_table_became_a_link_to_another(lake: Lake) -> None:
    filled(lake, PLAIN)
    filled(lake, HIDDEN)
    assert lake.client.post(PLAN, json={}).status_code == 200
    own, other = (path_of(lake.metadata(name)["location"]) / "metadata" for name in (PLAIN, HIDDEN))
    shutil.move(own, own.with_name("before"))
    own.symlink_to(other)
    answer = lake.client.post(PLAN, json={})
    assert answer.status_code in (400, 404)


def test_a_plan_that_names_a_hidden_tables_data_file_is_refused(lake: Lake) -> None:
    filled(lake, PLAIN, f"{lake.metadata(HIDDEN)['location']}/data/theirs.parquet")
    answer = lake.client.post(PLAN, json={})
    assert answer.status_code == 400
    assert "another table's directory" in answer.text
    assert str(HIDDEN) not in answer.text


def test_a_plan_that_names_a_file_outside_of_the_allowed_locations_is_refused(lake: Lake, tmp_path: Path) -> None:
    filled(lake, PLAIN, f"{tmp_path.as_uri()}/elsewhere/x.parquet")
    assert lake.client.post(PLAN, json={}).status_code == 400
