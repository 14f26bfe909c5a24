"""Remote signing: the checks on a request to S3 before the server signs it, so that it stays within the caller's
reach.

A signature grants all rights of the server's keys. So the server refuses everything that is not known to be harmless:
methods, query parameters, headers, spellings of a host or a key. S3 reads exactly the checked text, because the text
of the URI itself is signed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

from catalog.credentials.reach import Reach
from catalog.credentials.storage_config import KMS_KEYS, StorageConfig
from catalog.errors import Forbidden, Invalid

LONGEST_URI = 8_192
MOST_KEYS = 1_000
UNSIGNED = "UNSIGNED-PAYLOAD"
READING = frozenset({"GET", "HEAD"})

_SENT = frozenset({"x-amz-date", "x-amz-security-token", "authorization"})
"""Headers of the signature itself; the client's values are ignored."""
_HEADER = re.compile(
    r"x-amz-(content-sha256|checksum-[a-z0-9-]+|sdk-checksum-algorithm|trailer|decoded-content-length|storage-class"
    r"|server-side-encryption(-aws-kms-key-id|-bucket-key-enabled)?|meta-[a-z0-9-]+|copy-source(-range|-if-[a-z-]+)?|metadata-directive"
    r"|request-payer|expected-bucket-owner|source-expected-bucket-owner|mp-object-size)"
)
_ENCRYPTION = "x-amz-server-side-encryption"
_KMS_KEY = f"{_ENCRYPTION}-aws-kms-key-id"
_ENCRYPTIONS = frozenset({"AES256", "aws:kms", "aws:kms:dsse"})
_TRAILING_MD5 = "x-amz-te"
"""Sent by Amazon's Java client when it reads: the store may append a checksum."""
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
_PAYLOAD = re.compile(r"[0-9a-f]{64}|UNSIGNED-PAYLOAD|STREAMING-UNSIGNED-PAYLOAD-TRAILER")
_PLAIN = re.compile(r"[\x21-\x7e]+")
_ESCAPES = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*")

# The allowed query parameters of requests on an object, by method. On a bucket, lists and deletions of many objects are
# allowed.
_OBJECT_QUERIES: Mapping[str, Sequence[frozenset[str]]] = {
    "GET": (frozenset(), frozenset({"partNumber"})),
    "HEAD": (frozenset(), frozenset({"partNumber"})),
    "PUT": (frozenset(), frozenset({"partNumber", "uploadId"})),
    "POST": (frozenset({"uploads"}), frozenset({"uploadId"})),
    "DELETE": (frozenset(), frozenset({"uploadId"})),
}
_LIST_QUERY = frozenset(
    {"list-type", "prefix", "delimiter", "max-keys", "continuation-token", "start-after", "marker", "encoding-type"}
    | {"fetch-owner"}
)
_OPERATION = "x-id"
"""An SDK's name for the operation; S3 ignores it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignRequest:
    """A request that a client wants to send to S3."""

    method: str
    uri: str
    region: str
    headers: Mapping[str, Sequence[str]]
    body: str | None = None


@dataclass(frozen=True, slots=True)
class Signable:
    """The part of the request that the server signs."""

    headers: Mapping[str, str]
    payload: str


@dataclass(frozen=True, slots=True)
class _Target:
    bucket: str
    key: str
    query: Mapping[str, str]


def check_signable(request: SignRequest, reach: Reach, storage: StorageConfig) -> Signable:
    """The part of a request to sign; Forbidden if it exceeds the reach, Invalid if its meaning is not certain."""
    if request.region != storage.signing_region:
        raise Invalid(
            f"the catalog's storage is in {storage.signing_region}, not in {request.region}",
            hint=f"set s3.region={storage.signing_region}",
        )
    if request.method not in _OBJECT_QUERIES:
        raise Forbidden(f"the server signs no {request.method} requests")
    headers = _select_headers(request.headers)
    _check_encryption(headers, storage)
    target = _parse_target(request.uri, reach, storage)
    payload = headers.pop("x-amz-content-sha256", UNSIGNED)
    if _PAYLOAD.fullmatch(payload) is None:
        raise Invalid(f"x-amz-content-sha256: {payload} cannot be signed for another", hint=f"send {UNSIGNED}")
    if target.key:
        _check_object(request.method, target, headers, reach)
        return Signable(headers, payload)
    _refuse_copy(headers)
    if request.method == "GET":
        _check_list(target, reach)
        return Signable(headers, payload)
    if request.method == "POST" and target.query.keys() - {_OPERATION} == {"delete"}:
        return Signable(headers, _check_deletion(target.bucket, request.body, reach))
    raise Forbidden("the server signs no operations on buckets, except lists and deletions within the table")


def _check_encryption(headers: Mapping[str, str], storage: StorageConfig) -> None:
    """Forbidden for an encryption key that the catalog does not name: its holder could take objects from all others.

    The server's rights would allow any key that a client names, even of another account. The server never signs
    headers with client keys (SSE-C) or encryption contexts.
    """
    kind, key = headers.get(_ENCRYPTION), headers.get(_KMS_KEY)
    if kind is not None and kind not in _ENCRYPTIONS:
        raise Forbidden(
            f"{_ENCRYPTION}: the server does not sign {kind}", hint=f"send one of {', '.join(sorted(_ENCRYPTIONS))}"
        )
    if key is not None and key not in storage.kms_keys:
        raise Forbidden(
            f"the catalog does not let objects be encrypted with the KMS key {key}",
            hint=f"leave the key to the bucket, or ask an administrator to name it in {KMS_KEYS}",
        )


def _check_object(method: str, target: _Target, headers: Mapping[str, str], reach: Reach) -> None:
    if target.query.keys() - {_OPERATION} not in _OBJECT_QUERIES[method]:
        raise Forbidden(f"the server signs no {method} with ?{'&'.join(sorted(target.query))}")
    if not reach.may(target.bucket, target.key, write=method not in READING):
        raise _make_reach_error(target.bucket, target.key)
    source = headers.get("x-amz-copy-source")
    if source is None:
        return
    if method != "PUT":
        _refuse_copy(headers)
    bucket, _, key = _decode_key(source.removeprefix("/"), "x-amz-copy-source").partition("/")
    if "?" in source or not reach.may(bucket, key, write=False):  # ?versionId=
        raise _make_reach_error(bucket, key)


def _refuse_copy(headers: Mapping[str, str]) -> None:
    if any(name.startswith("x-amz-copy-source") for name in headers):
        raise Forbidden("x-amz-copy-source is signed with the PUT of an object only")


def _check_list(target: _Target, reach: Reach) -> None:
    if not target.query.keys() - {_OPERATION} <= _LIST_QUERY:
        raise Forbidden(f"the server signs no GET of a bucket with ?{'&'.join(sorted(target.query))}")
    prefix = target.query.get("prefix", "")
    _check_plain(prefix, "prefix")
    if not reach.may_list(target.bucket, prefix):
        raise Forbidden(f"the list of s3://{target.bucket}/{prefix} goes beyond the table", hint="end it with a slash")


def _make_reach_error(bucket: str, key: str) -> Forbidden:
    return Forbidden(f"s3://{bucket}/{key} does not lie where the caller may do this with the table")


# --- the form of a request ---


def _select_headers(request_headers: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The headers to sign, by lower-case name: all headers of S3. Each must occur once, or S3 might read the other
    one.
    """
    headers: dict[str, str] = {}
    seen: set[str] = set()
    for name, values in request_headers.items():
        lower = name.lower()
        if _HEADER_NAME.fullmatch(name) is None or not all(_is_value(value) for value in values):
            raise Invalid(f"malformed header {name!r}")
        if lower in seen:
            raise Invalid(f"the header {lower} is there twice")
        seen.add(lower)
        if not lower.startswith("x-amz-") or lower in _SENT:
            continue
        if _HEADER.fullmatch(lower) is None and lower != _TRAILING_MD5:
            raise Forbidden(f"the server signs no requests with the header {lower}")
        if len(values) != 1:
            raise Invalid(f"the header {lower} must have one value")
        headers[lower] = values[0]
    return headers


def _is_value(value: str) -> bool:
    return value.isprintable() and value == value.strip()


def _parse_target(uri: str, reach: Reach, storage: StorageConfig) -> _Target:
    if len(uri) > LONGEST_URI or _PLAIN.fullmatch(uri) is None or "\\" in uri or "#" in uri:
        raise Invalid("uri: expected an absolute URI in ASCII, without a fragment")
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise Invalid(f"uri: {error}") from error
    where = f"{parts.scheme}://{parts.netloc}"
    if where in _path_style_hosts(storage):
        bucket, _, rest = parts.path.removeprefix("/").partition("/")
        if bucket not in reach.buckets:
            raise Forbidden(f"the table has no files in the bucket {bucket!r}")
    else:
        bucket_name = next((bucket for bucket in reach.buckets if where in _bucket_hosts(storage, bucket)), None)
        if bucket_name is None:
            raise Forbidden(f"{where} is not where the table's files are")
        bucket, rest = bucket_name, parts.path.removeprefix("/")
    key = _decode_key(rest, "uri")
    return _Target(bucket, key, dict(_parse_query(parts.query)))


def _amazon_hosts(storage: StorageConfig) -> tuple[str, ...]:
    region, suffix = storage.signing_region, "amazonaws.com.cn" if storage.partition == "aws-cn" else "amazonaws.com"
    return (f"s3.{region}.{suffix}", f"s3.{suffix}", f"s3.dualstack.{region}.{suffix}")


def _path_style_hosts(storage: StorageConfig) -> set[str]:
    if storage.endpoint is not None:
        return {storage.endpoint}
    return {f"https://{host}" for host in _amazon_hosts(storage)}


def _bucket_hosts(storage: StorageConfig, bucket: str) -> set[str]:
    if storage.endpoint is not None:
        scheme, _, host = storage.endpoint.partition("://")
        return {f"{scheme}://{bucket}.{host}"}
    return {f"https://{bucket}.{host}" for host in _amazon_hosts(storage)}


def _parse_query(text: str) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for pair in text.split("&") if text else ():
        name, _, value = pair.partition("=")
        if "+" in pair or ";" in pair:  # some read + as a space, some do not; some read ; as a separator
            raise Invalid("uri: write + and ; in the query as %2B and %3B")
        decoded = _unescape(name, "uri")
        if decoded in seen:
            raise Invalid(f"uri: {decoded} is in the query twice")
        seen.add(decoded)
        yield decoded, _unescape(value, "uri")


def _decode_key(text: str, where: str) -> str:
    key = _unescape(text, where)
    _check_plain(key, where)
    return key


def _unescape(text: str, where: str) -> str:
    try:
        if _ESCAPES.fullmatch(text) is None:
            raise Invalid(f"{where}: malformed escape in {text!r}")
        return unquote(text, encoding="utf-8", errors="strict")
    except UnicodeDecodeError as error:
        raise Invalid(f"{where}: {text!r} is no UTF-8") from error


def _check_plain(key: str, where: str) -> None:
    """Invalid for a key that a client, proxy or store may read as another: `..`, in any number of escapes."""
    plain = key
    while (again := unquote(plain, errors="replace")) != plain:
        plain = again
    if any(part in (".", "..") for part in re.split(r"[/\\]", plain)) or not key.isprintable():
        raise Invalid(f"{where}: the key {key!r} is not plain")


# --- deletions of many objects ---


def _check_deletion(bucket: str, body: str | None, reach: Reach) -> str:
    """The hash of the body. It is signed, so the signature is useless with another body."""
    if not body:
        raise Invalid(
            "body: a deletion of many objects is signed with the list of them only",
            hint="delete one object at a time, or let the server purge the table",
        )
    for key in _parse_deletion(body):
        _check_plain(key, "body")
        if not reach.may(bucket, key, write=True):
            raise _make_reach_error(bucket, key)
    return hashlib.sha256(body.encode()).hexdigest()


def _parse_deletion(body: str) -> list[str]:
    malformed = Invalid("body: expected <Delete> with one <Key> in each <Object>, and nothing else but <Quiet>")
    if "<!" in body:  # no DTD, because parsers resolve its entities differently; no CDATA, no comments
        raise malformed
    try:
        root = ET.fromstring(body)  # noqa: S314 (without a DTD there is nothing to expand)
    except (ET.ParseError, ValueError) as error:
        raise malformed from error
    keys: list[str] = []
    if _read_tag(root) != "Delete":
        raise malformed
    for child in root:
        if _read_tag(child) == "Quiet" and not len(child):
            continue
        if (
            _read_tag(child) != "Object"
            or [_read_tag(child_element) for child_element in child] != ["Key"]
            or len(child[0])
        ):
            raise malformed  # a VersionId too, which deletes permanently
        keys.append(child[0].text or "")
    if not 0 < len(keys) <= MOST_KEYS:
        raise malformed
    return keys


def _read_tag(element: ET.Element) -> str:
    namespace, _, name = element.tag.rpartition("}")
    return name if namespace in ("", "{http://s3.amazonaws.com/doc/2006-03-01/") else ""
