"""What each client is told of a table beside its metadata, and what is made ready for it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from catalog.names import TableName
from catalog.scan.mode import CONFIG, PROPERTY
from tests.databases import OpenDatabase
from tests.factories import LAKE
from tests.server.iceberg.null_schema import SCHEMA
from tests.server.lake import Lake, a_lake

TABLES = "/iceberg/v1/lake/namespaces/db/tables"
BASE_PATH = "/iceberg/v1/lake/namespaces/db%1Forders/tables/base"
DUCKDB = {"User-Agent": "duckdb/v1.5.5(linux_amd64) python/3.11"}
JAVA = {"X-Client-Version": "Apache Iceberg 1.12.0 (commit 9a6a5b0)", "User-Agent": "Apache-HttpClient/5.5 (Java/17)"}
STRIPPED_JAVA = {"User-Agent": "Apache-HttpClient/5.5 (Java/17.0.12)"}
PYICEBERG = {"X-Client-Version": "PyIceberg 0.12.0", "User-Agent": "PyIceberg/0.12.0"}
GO = {"User-Agent": "GoIceberg/0.7.0", "X-Client-Version": "0.14.1"}


@pytest.fixture
def lake(opened_sqlite: OpenDatabase, tmp_path: Path) -> Lake:
    made = a_lake(opened_sqlite.database, tmp_path)
    made.create_keyed()
    made.create(TableName(("db",), "asks"), **{PROPERTY: "server"})
    return made


def test_duckdb_is_told_nothing_that_it_takes_for_credentials(lake: Lake) -> None:
    """DuckDB 1.5 could read no store of a keyed table: its answer had a configuration without an S3 region."""
    for headers in (DUCKDB, GO, {"User-Agent": "curl/8"}):
        for path in (BASE_PATH, f"{TABLES}/asks"):
            for access in ({}, {"X-Iceberg-Access-Delegation": "vended-credentials"}):
                answer = lake.client.get(path, headers={**headers, **access})
                assert answer.json()["config"] == {}
    created = {"name": "new", "schema": SCHEMA, "properties": {PROPERTY: "server"}}
    assert lake.client.post(TABLES, headers=DUCKDB, json=created).json()["config"] == {}


@pytest.mark.parametrize("headers", [JAVA, STRIPPED_JAVA, PYICEBERG], ids=["Java", "Java behind a proxy", "PyIceberg"])
def test_clients_that_plan_scans_are_told_who_plans(lake: Lake, headers: dict[str, str]) -> None:
    """Java's clients would read wrong rows from a keyed table's stores if they had them planned."""
    assert lake.client.get(BASE_PATH, headers=headers).json()["config"] == {CONFIG: "client"}
    assert lake.client.get(f"{TABLES}/asks", headers=headers).json()["config"] == {CONFIG: "server"}


def test_answers_that_differ_have_other_tags(lake: Lake) -> None:
    tags = {lake.client.get(BASE_PATH, headers=headers).headers["etag"] for headers in (DUCKDB, GO, JAVA, PYICEBERG)}
    assert len(tags) == 2
    tag = lake.client.get(BASE_PATH, headers=DUCKDB).headers["etag"]
    assert lake.client.get(BASE_PATH, headers={**DUCKDB, "If-None-Match": tag}).status_code == 304
    assert lake.client.get(BASE_PATH, headers={**JAVA, "If-None-Match": tag}).status_code == 200


def test_duckdb_keeps_its_own_keys_where_the_catalog_hands_out_none(lake: Lake) -> None:
    """It made a secret without keys of the region and endpoint, which hid the user's."""
    properties = {"firn.storage.s3.region": "eu-west-1", "firn.storage.s3.endpoint": "http://s3"}
    lake.services.namespaces.change_catalog_properties(LAKE, updates=properties, removals=[])
    asks = {"X-Iceberg-Access-Delegation": "vended-credentials"}
    told = {
        name: lake.client.get(f"{TABLES}/asks", headers={**headers, **asks}).json()["config"]
        for name, headers in (("duckdb", DUCKDB), ("pyiceberg", PYICEBERG))
    }
    assert told["duckdb"] == {}
    assert told["pyiceberg"]["s3.endpoint"] == "http://s3"


def test_a_staged_table_has_a_directory_for_its_metadata(lake: Lake) -> None:
    """DuckDB's CREATE TABLE AS failed on a local warehouse: nobody had made one."""
    answer = lake.client.post(TABLES, json={"name": "staged", "schema": SCHEMA, "stage-create": True})
    location = Path(urlsplit(answer.json()["metadata"]["location"]).path)
    assert (location / "metadata").is_dir()
    assert list((location / "metadata").iterdir()) == []


def test_a_table_is_staged_where_the_server_may_make_no_directory(lake: Lake) -> None:
    (lake.warehouse / "file").write_text("in the way", encoding="utf-8")
    place = (lake.warehouse / "file" / "t").as_uri()
    body = {"name": "staged", "schema": SCHEMA, "stage-create": True, "location": place}
    assert lake.client.post(TABLES, json=body).status_code == 200
