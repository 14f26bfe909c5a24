"""Remote signing: the server signs one request to S3 at a time, for clients that get no credentials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response

from catalog.credentials.signing import READING, SignRequest
from catalog.errors import Invalid
from server.iceberg.requests import (
    CatalogDep,
    JsonBody,
    LeaseDep,
    ServicesDep,
    TableDep,
    caller_of,
    json_response,
    optional_text_in,
    text_in,
)

router = APIRouter(prefix="/{catalog}/namespaces/{namespace}/tables/{table}")


@router.post("/sign")
def sign_request(
    services: ServicesDep, request: Request, catalog: CatalogDep, name: TableDep, lease: LeaseDep, body: JsonBody
) -> Response:
    """Sign a request to S3. Java's client caches the signature of a GET or HEAD for half a minute."""
    provider = optional_text_in(body, "provider") or "s3"
    if provider.lower() != "s3":
        raise Invalid(f"provider: the server signs requests only for s3, not for {provider}")
    s3_request = SignRequest(
        method=text_in(body, "method"),
        uri=text_in(body, "uri"),
        region=text_in(body, "region"),
        headers=_headers_in(body),
        body=optional_text_in(body, "body"),
    )
    signed = services.vending.sign(caller_of(request), catalog, name, s3_request, lease)
    answer = json_response({"uri": s3_request.uri, "headers": {key: [value] for key, value in signed.items()}})
    answer.headers["Cache-Control"] = "private" if s3_request.method in READING else "no-cache"
    return answer


def _headers_in(body: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    headers = body.get("headers")
    if not isinstance(headers, dict) or not all(
        isinstance(values, list) and all(isinstance(value, str) for value in values) for values in headers.values()
    ):
        raise Invalid("headers: expected an object with lists of strings")
    return headers
