"""What each client is told of a table beside its metadata, and what is made ready for it."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest

from catalog.errors import Invalid
from catalog.files.data_file import DataFileEntry, FileStats
from catalog.hive.mapping import PROPERTY as NAME_MAPPING
from catalog.names import TableName
from catalog.scan.mode import CONFIG, PROPERTY
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from server.iceberg.misread_vectors import refuse_misread_vectors
from tests.databases import OpenDatabase
from tests.factories import LAKE
from tests.server.iceberg.null_schema import SCHEMA
from tests.server.lake import Lake, a_lake, altered

TABLES = "/iceberg/v1/lake/namespaces/db/tables"
BASE_PATH = "/iceberg/v1/lake/namespaces/db%1Forders/tables/base"
DUCKDB = {"User-Agent": "duckdb/v1.5.5(linux_amd64) python/3.11"}
JAVA = {"X-Client-Version": "Apache Iceberg 1.12.0 (commit 9a6a5b0)", "User-Agent": "Apache-HttpClient/5.5 (Java/17)"}
STRIPPED_JAVA = {"User-Agent": "Apache-HttpClient/5.5 (Java/17.0.12)"}
PYICEBERG = {"X-Client-Version": "PyIceberg 0.12.0", "User-Agent": "PyIceberg/0.12.0"}
GO = {"User-Agent": "GoIceberg/0.7.0", "X-Client-Version": "0.14.1"}


@pytest.fixture
def lake(opened_sqlite: OpenDatabase, tmp_path: Path) -> Lake:
    lake = a_lake(opened_sqlite.database, tmp_path)
    lake.create_keyed()
    lake.create(TableName(("db",), "asks"), **{PROPERTY: "server"})
    return lake


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
    defaults = {
        name: lake.client.get(f"{TABLES}/asks", headers={**headers, **asks}).json()["config"]
        for name, headers in (("duckdb", DUCKDB), ("pyiceberg", PYICEBERG))
    }
    assert defaults["duckdb"] == {}
    assert defaults["pyiceberg"]["s3.endpoint"] == "http://s3"


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


@pytest.mark.parametrize(
    ("counted", "mapping", "status"),
    [
        ([{1, 2}], "[]", 200),
        ([{1, 2}, {1}], "[]", 400),  # a file of Hive, whose partition column is in the directory's name
        ([{1}], None, 200),  # files with field ids have all columns
    ],
    ids=["Iceberg's files", "a file of Hive", "no mapping"],
)
def test_iceberg_go_gets_no_table_whose_partition_columns_it_would_read_as_null(
    lake: Lake, counted: list[set[int]], mapping: str | None, status: int
) -> None:
    name = TableName(("db",), "hive")
    lake.create(name, **({} if mapping is None else {NAME_MAPPING: mapping}))
    spec = {"fields": [{"name": "note", "transform": "identity", "source-id": 2, "field-id": 1000}]}
    lake.commit(altered(name, {"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}))
    files = [
        DataFileEntry(
            stats=FileStats(
                location=f"{lake.metadata(name)['location']}/note=a/{number}",
                size=1,
                record_count=1,
                value_counts=dict.fromkeys(columns, 1),
            ),
            partition=("a",),
        )
        for number, columns in enumerate(counted)
    ]
    metadata = lake.metadata(name)
    added = write_snapshot(Storage(), metadata, files, (), snapshot_id=1, now_ms=metadata["last-updated-ms"])
    lake.commit(altered(name, *added.updates(), requirements=added.requirements()))
    answer, again = (lake.client.get(f"{TABLES}/hive", headers=GO) for _ in range(2))
    assert answer.status_code == again.status_code == status  # the second answer is remembered
    assert status == 200 or "iceberg-go would read null in column note of db.hive" in answer.json()["error"]["message"]
    assert all(lake.client.get(f"{TABLES}/hive", headers=headers).is_success for headers in (DUCKDB, JAVA, PYICEBERG))


@pytest.mark.parametrize(
    ("version", "specs", "deletes", "refused"),
    [
        (3, 2, "1", True),
        (3, 2, None, True),  # a writer that does not count them
        (3, 2, "0", False),
        (3, 1, "1", False),
        (2, 2, "1", False),
    ],
)
def test_duckdb_gets_no_table_whose_vectors_it_misreads(
    version: int, specs: int, deletes: str | None, *, refused: bool
) -> None:
    """DuckDB 1.5 returned other rows in each run, and no error."""
    summary = {"operation": "overwrite"} | ({} if deletes is None else {"total-delete-files": deletes})
    metadata = {
        "format-version": version,
        "partition-specs": [{"spec-id": number, "fields": []} for number in range(specs)],
        "current-snapshot-id": 7,
        "snapshots": [{"snapshot-id": 7, "summary": summary}],
    }
    with pytest.raises(Invalid, match="DuckDB would return wrong rows") if refused else nullcontext():
        refuse_misread_vectors(TableName(("db",), "t"), orjson.dumps(metadata))


def test_other_clients_get_a_table_whose_vectors_duckdb_misreads(lake: Lake) -> None:
    name = TableName(("db",), "moved")
    lake.create(name, **{"format-version": "3"})
    spec = {"fields": [{"name": "note", "transform": "identity", "source-id": 2, "field-id": 1000}]}
    lake.commit(altered(name, {"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}))
    metadata = lake.metadata(name)
    added = write_snapshot(Storage(), metadata, [], (), snapshot_id=1, now_ms=metadata["last-updated-ms"])
    updates = added.updates()
    updates[0]["snapshot"]["summary"]["total-delete-files"] = "1"
    lake.commit(altered(name, *updates, requirements=added.requirements()))
    refused = lake.client.get(f"{TABLES}/moved", headers=DUCKDB)
    assert refused.status_code == 400
    assert "set firn.read.format-version=2 on db.moved" in refused.text
    assert all(lake.client.get(f"{TABLES}/moved", headers=headers).is_success for headers in (GO, JAVA, PYICEBERG))
