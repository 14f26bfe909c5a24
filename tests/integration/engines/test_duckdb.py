"""DuckDB, with its own Iceberg extension, on a Firn catalog."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import httpx
import pyarrow as pa
from pyiceberg.catalog import load_catalog

import firn
from server.files.storage import Storage
from tests.integration.engines.duck import duckdb
from tests.integration.keyed.appends import Store
from tests.s3_fixtures import client_of_s3, s3_server
from tests.s3_gateway import enforcing_s3
from tests.spark_fixtures import ServerProcess, server_process

ROLE = "arn:aws:iam::123456789012:role/lake"
CHANGES = (
    "INSERT INTO {} VALUES (9, 'nine')",
    "DELETE FROM {} WHERE id = 1",
    "DELETE FROM {} WHERE id = 3",
    "UPDATE {} SET word = 'deux' WHERE id = 2",
    "MERGE INTO {} USING (SELECT 9 AS id, 'neuf' AS word) new USING (id) WHEN MATCHED THEN UPDATE SET word = new.word",
)
"""Each changes one row of `shop.stock`: of base, of a pack, and of rows that were inserted."""
_numbers = count(1)


def attached(server: ServerProcess) -> str:
    return f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '{server.url}/iceberg', AUTHORIZATION_TYPE 'none')"


def test_duckdb_creates_writes_changes_reads_and_drops(server: ServerProcess) -> None:
    t = f"lake.duck{next(_numbers)}.t"
    u = t.replace(".t", ".u")
    *_, snapshots, rows, both, gone = duckdb(
        attached(server),
        f"CREATE SCHEMA {t.rpartition('.')[0]}",
        f"CREATE TABLE {t} (id BIGINT, data VARCHAR, day DATE)",
        f"CREATE TABLE {u} (id BIGINT)",
        f"INSERT INTO {t} VALUES (1, 'a', DATE '2026-01-01'), (2, 'b', NULL), (3, 'c', NULL)",
        f"DELETE FROM {t} WHERE id = 1",
        f"UPDATE {t} SET data = 'B' WHERE id = 2",
        "BEGIN",
        f"INSERT INTO {t} VALUES (9, 'never', NULL)",
        "ROLLBACK",
        "BEGIN",
        f"INSERT INTO {t} VALUES (4, 'd', NULL)",
        f"INSERT INTO {u} VALUES (4)",
        "COMMIT",
        f"SELECT count(*) FROM iceberg_snapshots('{t}')",
        f"SELECT * FROM {t} ORDER BY id",
        f"SELECT id FROM {u}",
        f"DROP TABLE {u}",
    )
    assert rows == [[2, "B", None], [3, "c", None], [4, "d", None]]
    assert snapshots[0][0] >= 4
    assert both == [[4]]
    assert gone == []


def test_duckdb_sees_what_others_have_written(server: ServerProcess) -> None:
    space = f"duck{next(_numbers)}"
    catalog = load_catalog("lake", type="rest", uri=f"{server.url}/iceberg", warehouse="lake")
    catalog.create_namespace(space)
    table = catalog.create_table((space, "t"), pa.schema([("id", pa.int64()), ("word", pa.string())]))
    table.append(pa.table({"id": [1, 2], "word": ["one", "two"]}))
    read, wrote = duckdb(
        attached(server), f"SELECT * FROM lake.{space}.t ORDER BY id", f"INSERT INTO lake.{space}.t VALUES (3, 'three')"
    )[1:]
    assert read == [[1, "one"], [2, "two"]]
    assert wrote == [[1]]
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_duckdb_reads_and_appends_to_a_store_of_a_keyed_table(server: ServerProcess) -> None:
    """DuckDB 1.5 took `scan-planning-mode` in the answer to a load for credentials, and then found no region for S3."""
    space = f"duck{next(_numbers)}"
    catalog = load_catalog("lake", type="rest", uri=f"{server.url}/iceberg", warehouse="lake")
    catalog.create_namespace(space)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("word", pa.string())])
    catalog.create_table((space, "t"), schema, properties={"firn.primary-key": "id"})
    stores = f'lake."{space}.t"'
    wrote, read, merged = duckdb(
        attached(server).replace("'none'", "'none', SUPPORT_NESTED_NAMESPACES true"),
        f"INSERT INTO {stores}.base VALUES (1, 'one')",
        f"SELECT * FROM {stores}.base",
        f"SELECT * FROM lake.{space}.t",
    )[1:]
    assert wrote == [[1]]
    assert read == merged == [[1, "one"]]


def test_duckdb_creates_a_table_with_its_rows_in_a_local_directory(server: ServerProcess) -> None:
    """It failed with `Failed to create directory`: DuckDB makes one level, and the table had no directory yet."""
    space = f"duck{next(_numbers)}"
    *_, created, rows = duckdb(
        attached(server),
        f"CREATE SCHEMA lake.{space}",
        f"CREATE TABLE lake.{space}.t AS SELECT 7 AS id, 'seven' AS word",
        f"SELECT * FROM lake.{space}.t",
    )
    assert created == [[1]]
    assert rows == [[7, "seven"]]


def test_duckdb_reads_a_keyed_table_in_s3_by_credentials_of_a_reader(tmp_path: Path) -> None:
    with s3_server(tmp_path / "s3.log") as s3:
        client_of_s3(s3).create_bucket(Bucket="tables")
        own = {"s3.endpoint": s3, "s3.region": "us-east-1", "s3.access-key-id": "own", "s3.secret-access-key": "own"}
        settings = {"FIRN_FILE_IO": json.dumps(own), "FIRN_ACCESS__ENABLED": "true"}
        with (
            server_process(tmp_path / "data", **settings) as server,
            firn.connect(server.url, token=server.first_token) as admin,
        ):
            secret = stock_in_s3(admin, server, own)
            tokens = f"{server.url}/iceberg/v1/oauth/tokens"
            merged, other, refused = duckdb(
                f"CREATE SECRET firn (TYPE iceberg, CLIENT_ID 'report', CLIENT_SECRET '{secret}', "
                f"OAUTH2_SERVER_URI '{tokens}')",
                f"ATTACH 'vault' AS vault (TYPE iceberg, ENDPOINT '{server.url}/iceberg', SECRET firn)",
                "SELECT * FROM vault.shop.stock ORDER BY id",
                "SELECT * FROM vault.shop.other",
                "INSERT INTO vault.shop.stock VALUES (9, 'nine')",
            )[2:]
    assert merged == [[1, "one"], [2, "TWO"], [3, "three"]]
    assert "does not exist" in other
    assert isinstance(refused, str)


def test_duckdb_changes_a_keyed_table_in_s3_by_vended_credentials(tmp_path: Path) -> None:
    """The gateway lets a session write only where its policy says so."""
    with s3_server(tmp_path / "s3.log") as moto, enforcing_s3(moto) as s3:
        client_of_s3(moto).create_bucket(Bucket="tables")
        own = {
            "s3.endpoint": s3.url,
            "s3.region": "us-east-1",
            "s3.access-key-id": "own",
            "s3.secret-access-key": "own",
        }
        settings = {"FIRN_FILE_IO": json.dumps(own), "FIRN_ACCESS__ENABLED": "true"}
        with (
            server_process(tmp_path / "data", **settings) as server,
            firn.connect(server.url, token=server.first_token) as admin,
        ):
            secret = stock_in_s3(admin, server, own, "write")
            tokens = f"{server.url}/iceberg/v1/oauth/tokens"
            answers = duckdb(
                f"CREATE SECRET firn (TYPE iceberg, CLIENT_ID 'report', CLIENT_SECRET '{secret}', "
                f"OAUTH2_SERVER_URI '{tokens}')",
                f"ATTACH 'vault' AS vault (TYPE iceberg, ENDPOINT '{server.url}/iceberg', SECRET firn)",
                *(statement.format("vault.shop.stock") for statement in (*CHANGES, "SELECT * FROM {} ORDER BY id")),
            )[2:]
        assert answers == [[[1]]] * len(CHANGES) + [[[2, "deux"], [9, "neuf"]]]
        assert s3.denied == []
        places = {key.rpartition("/")[0].split("/", 4)[-1] for key in s3.written()}
        assert places == {"base/data", "merged", "change/data", "change/metadata"}


def stock_in_s3(admin: firn.Client, server: ServerProcess, own: dict[str, str], privilege: str = "read") -> str:
    """Create `shop.stock` with pending changes in the catalog `vault`; the secret of a service that reads it alone."""
    storage = {"endpoint": own["s3.endpoint"], "region": "us-east-1", "path-style": "true", "role-arn": ROLE}
    settings = {f"firn.storage.s3.{key}": value for key, value in storage.items()}
    admin.catalogs.create("vault", warehouse="s3://tables/wh", properties={"firn.storage.vending": "sts", **settings})
    columns = [{"name": "id", "type": "long"}, {"name": "word", "type": "string"}]
    headers = {"Authorization": f"Bearer {server.first_token}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as http:
        http.post("/iceberg/v1/vault/namespaces", json={"namespace": ["shop"]}).raise_for_status()
        waiting = {"firn.read.max-wait": "60 s"}  # an older image would be no base for the next statement
        admin.tables.create("vault.shop.stock", columns, primary_key=["id"], properties=waiting)
        admin.tables.create("vault.shop.other", columns)
        base, change = (Store(http, ("shop", "stock", name), Storage(own), "vault") for name in ("base", "change"))
        for answer in (
            base.append([{"id": 1, "word": "one"}, {"id": 2, "word": "two"}]),
            change.append([{"id": 2, "word": "TWO", "_op": "U"}, {"id": 3, "word": "three", "_op": "I"}]),
        ):
            answer.raise_for_status()
    admin.access.create_role("reader")
    admin.access.grant("reader", [privilege], catalog="vault", namespace="shop", table="stock")
    secret: str = admin.access.create_service("report")["client_secret"]
    admin.access.assign("reader", "report")
    return secret
