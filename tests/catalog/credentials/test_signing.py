"""Requests to S3 that are signed, and many that must not be."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from catalog.credentials.reach import Reach, S3Place
from catalog.credentials.signing import Signable, SignRequest, check_signable
from catalog.credentials.storage_config import StorageConfig
from catalog.errors import Forbidden, Invalid

HOST = "http://127.0.0.1:9000"
TABLE = f"{HOST}/lake/wh/orders"
STORAGE = StorageConfig(endpoint=HOST, region="eu-central-1", signs=True)
AMAZON = StorageConfig(region="eu-central-1", signs=True)
PLACE = S3Place("lake", "wh/orders")
READER, WRITER = Reach.to([PLACE], write=False), Reach.to([PLACE], write=True)


def build_request(
    method: str, uri: str, headers: Mapping[str, Sequence[str]] | None = None, body: str | None = None
) -> SignRequest:
    return SignRequest(method=method, uri=uri, region="eu-central-1", headers=headers or {}, body=body)


def deletion(*keys: str, more: str = "") -> str:
    objects = "".join(f"<Object><Key>{key}</Key>{more}</Object>" for key in keys)
    return f'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{objects}<Quiet>true</Quiet></Delete>'


READS = [
    build_request("GET", f"{TABLE}/data/a.parquet"),
    build_request("GET", f"{TABLE}/data/a.parquet?x-id=GetObject"),
    build_request("GET", f"{TABLE}/data/a.parquet?partNumber=1"),
    build_request("HEAD", f"{TABLE}/metadata/v1.metadata.json", {"Range": ["bytes=0-9"], "User-Agent": ["x"]}),
    build_request("GET", f"{TABLE}/data/day=2026-01-01%2000%253A00/a%20b%2Fc.parquet"),
    build_request("GET", f"{HOST}/lake?list-type=2&prefix=wh/orders/&delimiter=%2F"),
    build_request("GET", f"{HOST}/lake/?list-type=2&prefix=wh%2Forders%2Fdata"),
    build_request("GET", "http://lake.127.0.0.1:9000/wh/orders/a"),
]
WRITES = [
    build_request("PUT", f"{TABLE}/data/a.parquet", {"Content-Length": ["3"], "x-amz-checksum-crc32": ["AAAA"]}),
    build_request("PUT", f"{TABLE}/data/a.parquet", {"x-amz-server-side-encryption": ["aws:kms"]}),
    build_request("PUT", f"{TABLE}/data/a.parquet?partNumber=1&uploadId=u"),
    build_request("POST", f"{TABLE}/data/a.parquet?uploads"),
    build_request("POST", f"{TABLE}/data/a.parquet?uploads="),
    build_request("POST", f"{TABLE}/data/a.parquet?uploadId=u"),
    build_request("DELETE", f"{TABLE}/data/a.parquet"),
    build_request("DELETE", f"{TABLE}/data/a.parquet?uploadId=u"),
    build_request("PUT", f"{TABLE}/data/b", {"x-amz-copy-source": ["/lake/wh/orders/data/a"]}),
    build_request("PUT", f"{TABLE}/data/b", {"X-Amz-Copy-Source": ["lake/wh/orders/data/a%20b"]}),
    build_request("POST", f"{HOST}/lake?delete", body=deletion("wh/orders/a", "wh/orders/b &amp; c")),
    build_request("POST", f"{HOST}/lake/?delete=", body=deletion("wh/orders/a")),
]


@pytest.mark.parametrize("request_", READS, ids=lambda signed_request: f"{signed_request.method} {signed_request.uri}")
def test_a_reader_gets_reads_signed(request_: SignRequest) -> None:
    check_signable(request_, READER, STORAGE)


@pytest.mark.parametrize("request_", WRITES, ids=lambda signed_request: f"{signed_request.method} {signed_request.uri}")
def test_a_writer_gets_writes_signed_and_a_reader_does_not(request_: SignRequest) -> None:
    check_signable(request_, WRITER, STORAGE)
    with pytest.raises(Forbidden):
        check_signable(request_, READER, STORAGE)


@pytest.mark.parametrize(
    "uri",
    [
        "https://lake.s3.eu-central-1.amazonaws.com/wh/orders/a",
        "https://lake.s3.amazonaws.com/wh/orders/a",
        "https://lake.s3.dualstack.eu-central-1.amazonaws.com/wh/orders/a",
        "https://s3.eu-central-1.amazonaws.com/lake/wh/orders/a",
    ],
)
def test_amazons_own_hosts_are_known_without_an_endpoint(uri: str) -> None:
    check_signable(build_request("GET", uri), READER, AMAZON)


BEYOND = [
    # another table, whatever it is called, and another bucket
    ("GET", f"{HOST}/lake/wh/orders2/a"),
    ("GET", f"{HOST}/lake/wh/order/a"),
    ("GET", f"{HOST}/lake/wh/orders"),
    ("GET", f"{HOST}/lake/wh/customers/a"),
    ("GET", f"{HOST}/lake/WH/ORDERS/a"),
    ("GET", f"{HOST}/LAKE/wh/orders/a"),
    ("GET", f"{HOST}/other/wh/orders/a"),
    ("GET", f"{HOST}//lake/wh/orders/a"),
    ("GET", f"{HOST}/lake//wh/orders/a"),
    ("GET", f"{HOST}/lake%2Fwh/orders/a"),
    # ways out of the directory
    ("GET", f"{TABLE}/../customers/a"),
    ("GET", f"{TABLE}/./a"),
    ("GET", f"{TABLE}/%2e%2e/customers/a"),
    ("GET", f"{TABLE}/%2E%2E/customers/a"),
    ("GET", f"{TABLE}/.%2e/customers/a"),
    ("GET", f"{TABLE}%2F..%2Fcustomers/a"),
    ("GET", f"{TABLE}/%252e%252e/customers/a"),
    ("GET", f"{TABLE}/x%252F..%252F..%252Fcustomers/a"),
    ("GET", f"{TABLE}/%5c..%5ccustomers/a"),
    ("GET", f"{TABLE}/..\\customers/a"),
    ("GET", f"{TABLE}/a%00/b"),
    ("GET", f"{TABLE}/a%0d%0aHost:%20evil"),
    ("GET", f"{TABLE}/a%c0%ae"),
    ("GET", f"{TABLE}/a%zz"),
    ("GET", f"{TABLE}/a%2"),
    # another host, or one that only looks like the right one
    ("GET", "http://evil.example/lake/wh/orders/a"),
    ("GET", "http://127.0.0.1:9001/lake/wh/orders/a"),
    ("GET", "http://127.0.0.1/lake/wh/orders/a"),
    ("GET", "https://127.0.0.1:9000/lake/wh/orders/a"),
    ("GET", "http://127.0.0.1:9000@evil.example/lake/wh/orders/a"),
    ("GET", "http://evil.example@127.0.0.1:9000/lake/wh/orders/a"),
    ("GET", "http://127.0.0.1:9000.evil.example/lake/wh/orders/a"),
    ("GET", "http://evil.example#@127.0.0.1:9000/lake/wh/orders/a"),
    ("GET", "http://evil.example\\@127.0.0.1:9000/lake/wh/orders/a"),
    ("GET", "http://other.127.0.0.1:9000/wh/orders/a"),
    ("GET", "HTTP://127.0.0.1:9000/lake/wh/orders/a "),
    ("GET", "//127.0.0.1:9000/lake/wh/orders/a"),
    ("GET", "/lake/wh/orders/a"),
    ("GET", "http://127.0.0.1:9000\t/lake/wh/orders/a"),
    ("GET", f"{TABLE}/a\r\nX: y"),
    ("GET", f"{TABLE}/ü"),
    ("GET", f"{TABLE}/a#b"),
    ("GET", f"{TABLE}/{'a' * 9000}"),
    # methods and operations that no table needs
    ("get", f"{TABLE}/a"),
    ("PATCH", f"{TABLE}/a"),
    ("OPTIONS", f"{TABLE}/a"),
    ("TRACE", f"{TABLE}/a"),
    ("GET", f"{TABLE}/a?acl"),
    ("GET", f"{TABLE}/a?ACL"),
    ("GET", f"{TABLE}/a?%61cl"),
    ("GET", f"{TABLE}/a?versionId=1"),
    ("GET", f"{TABLE}/a?tagging"),
    ("GET", f"{TABLE}/a?torrent"),
    ("GET", f"{TABLE}/a?partNumber=1&partNumber=2"),
    ("PUT", f"{TABLE}/a?acl"),
    ("PUT", f"{TABLE}/a?partNumber=1&uploadId=u&acl"),
    ("PUT", f"{TABLE}/a?partNumber=1;acl&uploadId=u"),
    ("PUT", f"{TABLE}/a?retention"),
    ("PUT", f"{TABLE}/a?legal-hold"),
    ("POST", f"{TABLE}/a?restore"),
    ("POST", f"{TABLE}/a?select&select-type=2"),
    ("POST", f"{TABLE}/a"),
    ("POST", f"{TABLE}/a?delete"),
    ("DELETE", f"{TABLE}/a?versionId=1"),
    ("DELETE", f"{TABLE}/a?tagging"),
    # whole buckets
    ("GET", HOST),
    ("GET", f"{HOST}/"),
    ("GET", f"{HOST}/lake"),
    ("GET", f"{HOST}/lake?acl"),
    ("GET", f"{HOST}/lake?policy"),
    ("GET", f"{HOST}/lake?location"),
    ("GET", f"{HOST}/lake?uploads&prefix=wh/orders/"),
    ("GET", f"{HOST}/lake?versions&prefix=wh/orders/"),
    ("GET", f"{HOST}/lake?list-type=2"),
    ("GET", f"{HOST}/lake?list-type=2&prefix="),
    ("GET", f"{HOST}/lake?list-type=2&prefix=wh/"),
    ("GET", f"{HOST}/lake?list-type=2&prefix=wh/orders"),
    ("GET", f"{HOST}/lake?list-type=2&prefix=wh/orders2/"),
    ("GET", f"{HOST}/lake?list-type=2&prefix=wh/orders/../"),
    ("GET", f"{HOST}/lake?list-type=2&prefix=wh/orders/&prefix=wh/"),
    ("GET", f"{HOST}/lake?list-type=2&prefix=wh/orders/&%70refix=wh/"),
    ("GET", f"{HOST}/lake?list-type=2&Prefix=wh/orders/"),
    ("GET", f"{HOST}/lake?list-type=2&prefix=wh/orders/+"),
    ("HEAD", f"{HOST}/lake"),
    ("PUT", f"{HOST}/lake"),
    ("DELETE", f"{HOST}/lake"),
    ("PUT", f"{HOST}/lake?policy"),
    ("POST", f"{HOST}/lake"),
    ("POST", f"{HOST}/lake?delete"),
    ("POST", f"{HOST}/lake?delete&versionId=1"),
]


@pytest.mark.parametrize(
    ("method", "uri"), BEYOND, ids=lambda uri_or_method: str(uri_or_method)[:60].encode("unicode_escape").decode()
)
def test_nothing_else_is_signed_even_for_a_writer(method: str, uri: str) -> None:
    with pytest.raises((Forbidden, Invalid)):
        check_signable(build_request(method, uri), WRITER, STORAGE)


@pytest.mark.parametrize(
    "headers",
    [
        {"x-amz-copy-source": ["/lake/wh/customers/a"]},
        {"x-amz-copy-source": ["/other/wh/orders/a"]},
        {"x-amz-copy-source": ["lake/wh/orders/../customers/a"]},
        {"x-amz-copy-source": ["lake/wh/orders/%2e%2e/customers/a"]},
        {"x-amz-copy-source": ["lake%2Fwh%2Fcustomers%2Fa"]},
        {"x-amz-copy-source": ["/lake/wh/orders/a?versionId=1"]},
        {"x-amz-copy-source": ["arn:aws:s3:eu-central-1:1:accesspoint/x/object/a"]},
        {"x-amz-copy-source": ["/lake/wh/orders/a", "/lake/wh/customers/a"]},
        {"x-amz-copy-source": []},
        {"x-amz-copy-source": ["/lake/wh/orders/a"], "X-Amz-Copy-Source": ["/lake/wh/customers/a"]},
        {"x-amz-copy-source": ["/lake/wh/orders/a\r\nx-amz-acl: public-read"]},
        {"x-amz-acl": ["public-read"]},
        {"X-AMZ-ACL": ["public-read"]},
        {"x-amz-grant-read": ["id=1"]},
        {"x-amz-tagging": ["a=b"]},
        {"x-amz-website-redirect-location": ["/x"]},
        {"x-amz-object-lock-mode": ["COMPLIANCE"]},
        {"x-amz-bypass-governance-retention": ["true"]},
        {"x-amz-\r\nacl": ["public-read"]},
        {"x-amz-acl ": ["public-read"]},
        {"": ["x"]},
        {"x-amz-meta-a": ["b\nx-amz-acl: public-read"]},
        {"x-amz-meta-a": [" b"]},
        {"x-amz-content-sha256": ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD"]},
        {"x-amz-content-sha256": ["nonsense"]},
    ],
    ids=str,
)
def test_headers_that_would_change_what_the_request_does_are_refused(headers: Mapping[str, Sequence[str]]) -> None:
    with pytest.raises((Forbidden, Invalid)):
        check_signable(build_request("PUT", f"{TABLE}/a", headers), WRITER, STORAGE)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_copy_is_a_put(method: str) -> None:
    with pytest.raises(Forbidden):
        check_signable(
            build_request(method, f"{TABLE}/a", {"x-amz-copy-source": ["/lake/wh/orders/b"]}), WRITER, STORAGE
        )


def test_only_s3s_own_headers_are_signed_so_that_a_range_may_change() -> None:
    headers = {"Range": ["bytes=0-1"], "Host": ["evil"], "X-Amz-Date": ["x"], "x-amz-checksum-mode": ["ENABLED"]}
    assert check_signable(build_request("GET", f"{TABLE}/a", headers), READER, STORAGE) == Signable(
        {"x-amz-checksum-mode": "ENABLED"}, "UNSIGNED-PAYLOAD"
    )


def test_what_amazons_client_for_java_asks_for_when_it_reads_is_signed() -> None:
    """Iceberg's FileIO for Spark sends it with every GET: none of them was signed."""
    signable = check_signable(build_request("GET", f"{TABLE}/a", {"x-amz-te": ["append-md5"]}), READER, STORAGE)
    assert signable.headers == {"x-amz-te": "append-md5"}


def test_a_deletion_of_many_is_signed_with_the_body_that_was_judged() -> None:
    body = deletion("wh/orders/a")
    headers = {"x-amz-content-sha256": ["UNSIGNED-PAYLOAD"]}
    signable = check_signable(build_request("POST", f"{HOST}/lake?delete", headers, body), WRITER, STORAGE)
    assert signable.payload == hashlib.sha256(body.encode()).hexdigest()


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no xml",
        "<Delete></Delete>",
        deletion("wh/customers/a"),
        deletion("wh/orders/a", "wh/customers/a"),
        deletion("wh/orders/../customers/a"),
        deletion("wh/orders/a", more="<VersionId>1</VersionId>"),
        deletion("wh/orders/a", more="<Key>wh/customers/a</Key>"),
        deletion("wh/orders/<x/>a"),
        deletion("wh/orders/<!-- -->a"),
        deletion("<![CDATA[wh/customers/a]]>"),
        f'<!DOCTYPE Delete [<!ENTITY k "wh/customers/a">]>{deletion("&k;")}',
        deletion("wh/orders/a").replace("<Quiet>", "<Other>").replace("</Quiet>", "</Other>"),
        deletion("wh/orders/a").replace("Object", "object"),
        deletion("wh/orders/a").replace("2006-03-01/", "2006-03-01/x"),
        deletion(*["wh/orders/a"] * 1001),
    ],
    ids=lambda body: body[:80],
)
def test_a_deletion_of_anything_else_is_refused(body: str) -> None:
    with pytest.raises((Forbidden, Invalid)):
        check_signable(build_request("POST", f"{HOST}/lake?delete", body=body), WRITER, STORAGE)


def test_another_region_is_refused() -> None:
    with pytest.raises(Invalid, match="eu-central-1"):
        check_signable(replace(READS[0], region="us-west-2"), READER, STORAGE)


def test_the_former_place_of_a_table_is_read_and_not_written() -> None:
    reach = Reach.to([PLACE], [S3Place("lake", "old/orders")], write=True)
    check_signable(build_request("GET", f"{HOST}/lake/old/orders/a"), reach, STORAGE)
    with pytest.raises(Forbidden):
        check_signable(build_request("DELETE", f"{HOST}/lake/old/orders/a"), reach, STORAGE)


ENCRYPTION = "x-amz-server-side-encryption"
OWN_KEY = "arn:aws:kms:eu-central-1:123456789012:key/1234abcd"
FOREIGN_KEY = "arn:aws:kms:eu-central-1:999999999999:key/1234abcd"
UPLOADS = [
    ("PUT", f"{TABLE}/data/a.parquet", {}),
    ("POST", f"{TABLE}/data/a.parquet?uploads", {}),
    ("PUT", f"{TABLE}/data/b", {"x-amz-copy-source": ["/lake/wh/orders/data/a"]}),
]


@pytest.mark.parametrize(("method", "uri", "more"), UPLOADS, ids=str)
@pytest.mark.parametrize("key", [FOREIGN_KEY, OWN_KEY.upper(), f"{OWN_KEY} ", "alias/own", "1234abcd", ""])
def test_nothing_is_encrypted_with_a_key_that_the_catalog_does_not_name(
    method: str, uri: str, more: Mapping[str, Sequence[str]], key: str
) -> None:
    """Every key that a client named was signed: a writer could take the data from all others by a key of their own."""
    for storage in (STORAGE, replace(STORAGE, kms_keys=frozenset({OWN_KEY}))):
        for name in (f"{ENCRYPTION}-aws-kms-key-id", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"):
            with pytest.raises((Forbidden, Invalid)):
                check_signable(
                    build_request(method, uri, {**more, ENCRYPTION: ["aws:kms"], name: [key]}), WRITER, storage
                )


@pytest.mark.parametrize(("method", "uri", "more"), UPLOADS, ids=str)
def test_a_key_that_the_catalog_names_is_signed(method: str, uri: str, more: Mapping[str, Sequence[str]]) -> None:
    storage = StorageConfig.of(
        {
            "firn.storage.remote-signing": "true",
            "firn.storage.s3.endpoint": HOST,
            "firn.storage.s3.region": "eu-central-1",
            "firn.storage.s3.kms-keys": f"alias/other, {OWN_KEY}",
        }
    )
    for key in ("alias/other", OWN_KEY):
        headers = {**more, ENCRYPTION: ["aws:kms"], f"{ENCRYPTION}-aws-kms-key-id": [key]}
        assert (
            check_signable(build_request(method, uri, headers), WRITER, storage).headers[f"{ENCRYPTION}-aws-kms-key-id"]
            == key
        )


@pytest.mark.parametrize(
    "name",
    [
        f"{ENCRYPTION}-context",
        *(f"{ENCRYPTION}-customer-{part}" for part in ("algorithm", "key", "key-md5")),
        *(f"x-amz-copy-source-server-side-encryption-customer-{part}" for part in ("algorithm", "key", "key-md5")),
        f"{ENCRYPTION}-anything-new",
    ],
)
def test_keys_and_contexts_that_clients_bring_are_not_signed(name: str) -> None:
    storage = replace(STORAGE, kms_keys=frozenset({OWN_KEY}))
    for method in ("PUT", "GET", "HEAD"):
        with pytest.raises(Forbidden):
            check_signable(build_request(method, f"{TABLE}/data/a.parquet", {name: [OWN_KEY]}), WRITER, storage)


@pytest.mark.parametrize(
    ("kind", "signed"), [("AES256", True), ("aws:kms:dsse", True), ("aws:fsx", False), ("", False)]
)
def test_how_objects_are_encrypted_is_one_of_the_kinds_that_s3_has_keys_for(kind: str, *, signed: bool) -> None:
    request = build_request(
        "PUT", f"{TABLE}/data/a.parquet", {ENCRYPTION: [kind], f"{ENCRYPTION}-bucket-key-enabled": ["true"]}
    )
    if signed:
        assert check_signable(request, WRITER, STORAGE).headers[ENCRYPTION] == kind
    else:
        with pytest.raises(Forbidden):
            check_signable(request, WRITER, STORAGE)


def test_a_property_that_names_no_kms_key_is_refused() -> None:
    with pytest.raises(Invalid, match="kms-keys"):
        StorageConfig.of({"firn.storage.s3.kms-keys": "a key"})
