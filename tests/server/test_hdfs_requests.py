"""What an engine is told while no name node of a name service takes writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from firn.hdfs import calls
from tests.databases import OpenDatabase
from tests.factories import LAKE
from tests.fake_hdfs import FakeHdfs
from tests.server.lake import COLUMNS, Lake, a_lake

TABLES = "/iceberg/v1/lake/namespaces/db/tables"
STANDBY = (
    'RPCError("org.apache.hadoop.ipc.StandbyException", "Operation category WRITE is not supported in state standby. '
    'Visit https://s.apache.org/sbnn-error\\n\\tat x")'
)
SAFE_MODE = (
    'RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Name node is in safe mode.\\n\\tat x")'
)
REFUSALS = {
    "standby": (STANDBY, "is not supported in state standby", "hdfs haadmin -getAllServiceState"),
    "safe mode": (SAFE_MODE, "Name node is in safe mode", "hdfs dfsadmin -safemode leave"),
}


@pytest.fixture
def lake(opened_sqlite: OpenDatabase, tmp_path: Path) -> Lake:
    lake = a_lake(opened_sqlite.database, tmp_path)
    lake.services.namespaces.change_catalog_properties(
        LAKE, updates={"firn.storage.allowed-locations": "hdfs://prod/w"}, removals=[]
    )
    return lake


@pytest.mark.parametrize(("error", "words", "hint"), REFUSALS.values(), ids=REFUSALS)
def test_a_name_node_that_stays_busy_is_a_503_with_its_words_and_the_request_may_be_repeated(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, words: str, hint: str
) -> None:
    hdfs = FakeHdfs(tmp_path / "hdfs")
    hdfs.top.mkdir()
    refused_paths = []

    def refuse(path: str) -> None:
        refused_paths.append(path)
        raise RuntimeError(error)

    monkeypatch.setattr(calls, "make_client", lambda _root, _conf_dir: hdfs)
    monkeypatch.setattr(calls, "_clients", {})
    monkeypatch.setattr(calls.call, "__kwdefaults__", {**(calls.call.__kwdefaults__ or {}), "seconds": 0.4})
    body = {"name": "t", "schema": COLUMNS, "location": "hdfs://prod/w/t"}
    with monkeypatch.context() as busy:
        busy.setattr(hdfs, "create", refuse)
        answer = lake.client.post(TABLES, json=body)
    assert answer.status_code == 503, answer.text
    assert words in answer.json()["error"]["message"]
    assert hint in answer.text
    assert len(refused_paths) > 1, "it was asked again"
    assert lake.client.post(TABLES, json=body).status_code == 200
    assert [path.suffix for path in hdfs.top.rglob("*") if path.is_file()] == [".json"]
