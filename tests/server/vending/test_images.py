"""A reader of a keyed table in S3: reads the merged rows by credentials or signatures of the table's own name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from catalog.access.privileges import Privilege
from catalog.access.tokens import Secret
from catalog.keyed.spec import KeySpec
from catalog.names import TableName
from server.files.storage import Storage
from tests.integration.keyed.appends import Store
from tests.server.lake import definition
from tests.server.vending.vault import PATH, SERVERS_KEYS, SIGNS, STS, VAULT, VENDED, Vault

STOCK = TableName(("db",), "stock")
STOCK_NAME = ("db", "stock")
SIGNING = {"header.X-Iceberg-Access-Delegation": "remote-signing"}
MERGED = {1: "one", 2: "TWO", 3: "three"}


@pytest.fixture
def url(vault: Vault) -> Iterator[str]:
    """A server with the keyed table `db.stock`: two rows in base, two pending changes."""
    vault.configure(STS | SIGNS)
    waiting = {"firn.read.max-wait": "60 s"}  # whatever else the machine does
    vault.services.keyed.create(VAULT, definition(STOCK, **waiting), KeySpec(primary_key=("id",)))
    storage = Storage({"s3.endpoint": vault.s3, "s3.region": "us-east-1", **SERVERS_KEYS})
    with vault.listening() as url, vault.client(url) as admin:
        base, change = (Store(admin, (*STOCK_NAME, name), storage) for name in ("base", "change"))
        for answer in (
            base.append([{"id": 1, "note": "one"}, {"id": 2, "note": "two"}]),
            change.append([{"id": 2, "note": "TWO", "_op": "U"}, {"id": 3, "note": "three", "_op": "I"}]),
        ):
            assert answer.is_success, answer.text
        yield url
    vault.services.images.stop()
    vault.services.image_writes.stop()


@pytest.fixture
def reader(vault: Vault) -> Secret:
    """May read this one table and do nothing else."""
    return vault.token("ada", Privilege.READ, table="stock")


def connect(url: str, token: Secret, headers: Mapping[str, str] | None = None) -> RestCatalog:
    return RestCatalog("lake", uri=f"{url}/iceberg", warehouse="lake", token=token.text, **(headers or {}))


def read(catalog: RestCatalog) -> dict[int, str]:
    rows = catalog.load_table(STOCK_NAME).scan().to_arrow()
    return dict(zip(rows["id"].to_pylist(), rows["note"].to_pylist(), strict=True))


@pytest.mark.parametrize("headers", [{}, SIGNING], ids=["credentials", "signatures"])
def test_a_reader_of_the_table_alone_reads_its_merged_rows(
    vault: Vault, url: str, reader: Secret, headers: dict[str, str]
) -> None:
    assert read(connect(url, reader, headers)) == MERGED
    signed = [request.url for request in vault.cloud.signed]
    assert bool(signed) == bool(headers)
    assert not [url for url in signed if "/change/" in url]


def test_credentials_of_an_image_read_its_files_and_write_nothing(vault: Vault, url: str, reader: Secret) -> None:
    connect(url, reader).load_table(STOCK_NAME)
    table = vault.location(STOCK).partition("://")[2]
    base = vault.location(TableName(("db", "stock"), "base")).partition("://")[2]
    statements: list[dict[str, Any]] = json.loads(vault.cloud.policies[-1])["Statement"]
    of_objects = [
        statement for statement in statements if any("Object" in action for action in listed(statement["Action"]))
    ]
    assert {action for statement in statements for action in listed(statement["Action"])} <= {
        "s3:GetObject", "s3:GetObjectVersion", "s3:ListBucket", "s3:GetBucketLocation",
    }  # fmt: skip
    reached = {resource for statement in of_objects for resource in listed(statement["Resource"])}
    assert reached == {f"arn:aws:s3:::{place}/*" for place in (base, f"{table}/merged", f"{table}/metadata")}


@pytest.mark.parametrize("headers", [{}, SIGNING], ids=["credentials", "signatures"])
def test_a_writer_of_the_table_inserts_rows(vault: Vault, url: str, headers: dict[str, str]) -> None:
    catalog = connect(url, vault.token("bob", Privilege.WRITE, table="stock"), headers)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])
    rows = pa.Table.from_pylist([{"id": 1, "note": "ONE"}, {"id": 4, "note": "four"}], schema=schema)
    catalog.load_table(STOCK_NAME).append(rows)
    assert read(catalog) == MERGED | {1: "ONE", 4: "four"}
    table = vault.location(STOCK).partition("://")[2]
    if headers:
        written = {request.url for request in vault.cloud.signed if request.method == "PUT"}
        assert written
        assert all(f"{table}/change/" in place for place in written)
        return
    statements: list[dict[str, Any]] = json.loads(vault.cloud.policies[-1])["Statement"]
    writing = [statement for statement in statements if "s3:PutObject" in listed(statement["Action"])]
    deletes = "*????????-????-????-????-????????????-deletes.parquet"  # as DuckDB names them, beside the data files
    assert {resource for statement in writing for resource in listed(statement["Resource"])} == {
        f"arn:aws:s3:::{table}/change/*",
        f"arn:aws:s3:::{table}/base/{deletes}",
        f"arn:aws:s3:::{table}/merged/{deletes}",
    }


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def test_only_reads_of_an_images_files_are_signed(vault: Vault, url: str, reader: Secret) -> None:
    table, client = vault.location(STOCK).partition("://")[2], vault.client(url, reader)

    def sign(method: str, place: str) -> int:
        request = {"region": "us-east-1", "method": method, "uri": f"{vault.s3}/{table}/{place}", "headers": {}}
        return client.post(f"{PATH}/stock/sign", json=request).status_code

    for place in ("base/data/a.parquet", "merged/a.parquet", "metadata/a.json"):
        assert [sign(method, place) for method in ("GET", "HEAD", "PUT", "DELETE")] == [200, 200, 403, 403]
    assert [sign(method, "change/data/a.parquet") for method in ("GET", "PUT")] == [403, 403]


def test_a_stranger_gets_neither_credentials_nor_signatures(vault: Vault, url: str) -> None:
    client: httpx.Client = vault.client(url, vault.token("eve", Privilege.READ, table="customers"))
    assert client.get(f"{PATH}/stock", headers=VENDED).status_code == 404
    assert client.get(f"{PATH}/stock/credentials").status_code == 404
    assert not vault.cloud.sessions or "eve" not in vault.cloud.sessions[-1]
