"""Requests to S3 signed by the catalog: PyIceberg works by it, and nobody gets further than the table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from catalog.access.privileges import Privilege
from catalog.access.tokens import Secret
from server.iceberg.credentials import REFUSED
from tests.s3_fixtures import client_of_s3
from tests.server.lake import definition
from tests.server.older_tables import before_the_location_rule
from tests.server.vending.vault import BOTH, OTHER, PATH, SIGNS, STS, TABLE, VENDED, Vault

READ, WRITE, CREATE = Privilege.READ, Privilege.WRITE, Privilege.CREATE
SIGNING = {"X-Iceberg-Access-Delegation": "remote-signing"}


@pytest.fixture
def url(vault: Vault) -> Iterator[str]:
    vault.configure(SIGNS)
    with vault.listening() as url:
        yield url


def a_request(vault: Vault, method: str, key: str, **more: Any) -> dict[str, Any]:
    return {"region": "us-east-1", "method": method, "uri": f"{vault.s3}/{vault.bucket}/{key}", "headers": {}} | more


def inside(vault: Vault, name: str) -> str:
    return f"{vault.location(TABLE).split('/', 3)[3]}/{name}"


def signed(vault: Vault, url: str, request: dict[str, Any], token: Secret | None = None) -> httpx.Response:
    return vault.client(url, token).post(f"{PATH}/orders/sign", json=request)


def sent(request: dict[str, Any], answer: httpx.Response, content: bytes | None = None) -> httpx.Response:
    headers = {name: values[0] for name, values in answer.json()["headers"].items()}
    assert answer.json()["uri"] == request["uri"]
    return httpx.request(request["method"], request["uri"], headers=headers, content=content, trust_env=False)


def test_pyiceberg_works_with_signatures_alone(vault: Vault, url: str) -> None:
    """It is told by the answer how to: nothing is configured but the catalog's address and a token."""
    token = vault.token("ada", WRITE, CREATE, table=None)
    catalog = RestCatalog(
        "lake",
        uri=f"{url}/iceberg",
        warehouse="lake",
        token=token.text,
        **{"header.X-Iceberg-Access-Delegation": "remote-signing"},
    )
    table = catalog.create_table("db.made", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2, 3]}))
    assert catalog.load_table("db.made").scan().to_arrow()["id"].to_pylist() == [1, 2, 3]
    assert {request.method for request in vault.cloud.signed} >= {"GET", "PUT"}
    assert not [key for key in table.io.properties if "secret" in key]


def test_a_load_says_where_requests_are_signed(vault: Vault, url: str) -> None:
    answer = vault.client(url).get(f"{PATH}/orders", headers=SIGNING).json()
    assert answer["config"]["s3.remote-signing-enabled"] == "true"
    assert answer["config"]["signer.endpoint"] == "v1/lake/namespaces/db/tables/orders/sign"
    assert answer["remote-signing-config"] == {"properties": {}, "headers": {}}
    assert "storage-credentials" not in answer


def test_credentials_come_before_signatures_where_a_client_takes_both(vault: Vault, url: str) -> None:
    vault.configure(STS)
    answer = vault.client(url).get(f"{PATH}/orders", headers=BOTH).json()
    assert answer["storage-credentials"]
    assert "s3.remote-signing-enabled" not in answer["config"]


@pytest.mark.parametrize("headers", [{}, VENDED])
def test_nobody_signs_who_has_not_asked(vault: Vault, url: str, headers: dict[str, str]) -> None:
    answer = vault.client(url).get(f"{PATH}/orders", headers=headers).json()
    assert "s3.remote-signing-enabled" not in answer["config"]
    assert "remote-signing-config" not in answer


def test_what_is_signed_is_what_s3_takes(vault: Vault, url: str) -> None:
    put = a_request(vault, "PUT", inside(vault, "data/a%20b"))
    answer = signed(vault, url, put)
    assert answer.headers["cache-control"] == "no-cache"
    assert sent(put, answer, b"rows").status_code == 200
    get = a_request(vault, "GET", inside(vault, "data/a%20b"))
    answer = signed(vault, url, get)
    assert answer.headers["cache-control"] == "private"
    assert sent(get, answer).content == b"rows"


def test_a_signature_is_that_of_the_servers_keys_over_host_and_s3s_headers(vault: Vault, url: str) -> None:
    request = a_request(vault, "GET", inside(vault, "a"), headers={"Range": ["bytes=0-1"], "x-amz-meta-x": ["y"]})
    headers = signed(vault, url, request).json()["headers"]
    (authorization,) = headers["Authorization"]
    assert "Credential=AKIASERVER/" in authorization
    assert "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-meta-x," in authorization
    assert headers["X-Amz-Content-SHA256"] == ["UNSIGNED-PAYLOAD"]
    assert "the-servers-own-secret" not in str(headers)


def test_a_reader_does_not_write_and_a_stranger_does_not_know_the_table(vault: Vault, url: str) -> None:
    reader, stranger = vault.token("ada", READ), vault.token("eve", READ, table="customers")
    get, put = (a_request(vault, method, inside(vault, "a")) for method in ("GET", "PUT"))
    assert signed(vault, url, get, reader).status_code == 200
    assert signed(vault, url, put, reader).status_code == 403
    assert signed(vault, url, get, stranger).status_code == 404
    assert httpx.post(f"{url}{PATH}/orders/sign", json=get, trust_env=False).status_code == 401
    assert len(vault.cloud.signed) == 1


def test_by_one_table_one_does_not_reach_another(vault: Vault, url: str) -> None:
    other = vault.location(OTHER).split("/", 3)[3]
    for key in (f"{other}/a", inside(vault, f"../{other}/a"), inside(vault, "%2e%2e/a"), "secret"):
        for method in ("GET", "PUT", "DELETE"):
            assert signed(vault, url, a_request(vault, method, key)).status_code in (400, 403)
    assert not vault.cloud.signed


def test_many_objects_are_deleted_by_the_body_that_was_judged(vault: Vault, url: str) -> None:
    keys = [inside(vault, name) for name in ("a", "b")]
    storage = client_of_s3(vault.s3)
    for key in keys:
        storage.put_object(Bucket=vault.bucket, Key=key, Body=b"x")
    body = f"<Delete>{''.join(f'<Object><Key>{key}</Key></Object>' for key in keys)}</Delete>"
    request = a_request(vault, "POST", "?delete", body=body)
    answer = signed(vault, url, request)
    assert answer.json()["headers"]["X-Amz-Content-SHA256"] == [hashlib.sha256(body.encode()).hexdigest()]
    assert sent(request, answer, body.encode()).status_code == 200
    left = storage.list_objects_v2(Bucket=vault.bucket, Prefix=inside(vault, "")).get("Contents", [])
    assert not {stored_object["Key"] for stored_object in left} & set(keys)


def test_tables_that_share_a_place_are_signed_for_nobody(vault: Vault, url: str) -> None:
    vault.configure({"firn.storage.remote-signing": "false"})
    vault.services.namespaces.create(vault.services.namespaces.catalogs()[0].name, ("more",), {})
    shared = TABLE.__class__(("more",), "shared")
    with before_the_location_rule():
        vault.create(shared, location=f"{vault.location(TABLE)}/data")
    vault.configure(SIGNS)
    assert signed(vault, url, a_request(vault, "GET", inside(vault, "data/a"))).status_code == 403
    answer = vault.client(url).get(f"{PATH}/orders", headers=SIGNING).json()
    assert "another table's files" in answer["config"][REFUSED]


def test_a_catalog_signs_only_when_it_says_so(vault: Vault, url: str) -> None:
    vault.configure({"firn.storage.remote-signing": "false"})
    assert signed(vault, url, a_request(vault, "GET", inside(vault, "a"))).status_code == 403
    assert not vault.cloud.signed


def test_a_table_that_moves_is_signed_for_where_it_is(vault: Vault, url: str) -> None:
    get = a_request(vault, "GET", "wh/moved/a")
    assert signed(vault, url, get).status_code == 403
    update = {"action": "set-location", "location": f"s3://{vault.bucket}/wh/moved"}
    client = vault.client(url)
    assert client.post(f"{PATH}/orders", json={"requirements": [], "updates": [update]}).status_code == 200
    assert signed(vault, url, get).status_code == 200


@pytest.mark.parametrize(
    "broken",
    [
        {"provider": "gcs"},
        {"provider": 1},
        {"headers": None},
        {"headers": {"a": "b"}},
        {"headers": {"a": [1]}},
        {"uri": 1},
        {"method": ""},
        {"region": "mars"},
        {"uri": "http://[::1"},
        {"uri": "http://[x/a"},
        {"body": 1},
    ],
    ids=str,
)
def test_a_malformed_request_is_a_bad_request(vault: Vault, url: str, broken: dict[str, Any]) -> None:
    answer = signed(vault, url, a_request(vault, "GET", inside(vault, "a")) | broken)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["type"] == "IllegalArgumentException"


def test_a_staged_table_gets_no_signatures_yet(vault: Vault, url: str) -> None:
    body = {"name": "next", "schema": definition(TABLE).schema, "stage-create": True}
    answer = vault.client(url).post(PATH, json=body, headers=SIGNING).json()
    assert "s3.remote-signing-enabled" not in answer["config"]
