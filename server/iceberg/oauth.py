"""POST /v1/oauth/tokens: a service's secret, or a token, for a short-lived token.

The specification means to drop this route: a client may be pointed at another issuer by `oauth2-server-uri`. Until then
every engine knows it, and none needs anything else.
"""

from __future__ import annotations

import base64
import binascii
import math
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import parse_qsl, unquote_plus

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.responses import JSONResponse

from catalog.access.audit_log import AuditEntry, Verdict
from catalog.errors import CatalogError, Unauthenticated, Unavailable
from server.iceberg.requests import ServicesDep
from server.logs import request_id
from server.service.access.tokens import Issued

router = APIRouter()

CLIENT_CREDENTIALS = "client_credentials"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 (a name, no secret)
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 (a name, no secret)
_TOKEN_TYPES = frozenset(f"urn:ietf:params:oauth:token-type:{kind}" for kind in ("access_token", "id_token", "jwt"))
LONGEST_TARGET = 200
"""Characters of a client id that go into the audit log."""
_UNSTORED = {"Cache-Control": "no-store", "Pragma": "no-cache"}  # RFC 6749, section 5.1


class _Refused(Exception):
    """An error of RFC 6749, section 5.2."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.answer = JSONResponse({"error": error, "error_description": description}, status, _UNSTORED)


async def content_of(request: Request) -> bytes:
    """Read the body of the request."""
    return await request.body()


@router.post("/oauth/tokens", response_model=None)
def get_token(
    request: Request,
    services: ServicesDep,
    content: Annotated[bytes, Depends(content_of)],
    authorization: Annotated[str | None, Header()] = None,
) -> Response:
    """Answer client credentials and token exchanges; errors have OAuth's shape."""
    try:
        issued = _issued(request, services, _form(content), authorization)
    except _Refused as refused:
        return refused.answer
    except Unavailable as error:
        return _Refused("temporarily_unavailable", error.message, 503).answer
    except CatalogError as error:
        return _Refused("invalid_grant", error.message).answer
    assert issued.token.expires_at is not None  # short-lived
    granted = {
        "access_token": issued.secret.text,
        "token_type": "bearer",
        "expires_in": int((issued.token.expires_at - issued.token.created_at).total_seconds()),
        "issued_token_type": ACCESS_TOKEN,
    }
    return JSONResponse(granted, headers=_UNSTORED)


def _issued(request: Request, services: ServicesDep, form: dict[str, str], authorization: str | None) -> Issued:
    if not services.access.enabled:
        raise _Refused("invalid_request", "access control is off on this server: connect without a credential")
    match form.get("grant_type"):
        case None:
            raise _Refused("invalid_request", "grant_type is missing")
        case kind if kind == CLIENT_CREDENTIALS:
            return _for_client(request, services, form, authorization)
        case kind if kind == TOKEN_EXCHANGE:
            return _exchanged(request, services, form)
        case kind:
            raise _Refused("unsupported_grant_type", f"{kind}: known are {CLIENT_CREDENTIALS} and {TOKEN_EXCHANGE}")


def _for_client(request: Request, services: ServicesDep, form: dict[str, str], authorization: str | None) -> Issued:
    """Exchange a client secret, unless too many failed before: see server.service.access.sign_in_attempts."""
    basic = _basic(authorization)
    client_id, secret = basic or (form.get("client_id", ""), form.get("client_secret", ""))
    attempts, address = services.access.attempts, _address(request)
    wait = attempts.compute_wait(client_id, address)
    if wait > 0:
        _note_failure(request, services, f"client {client_id}", "too many wrong secrets before", 429)
        refused = _Refused("temporarily_unavailable", "too many attempts with a wrong secret: try again later", 429)
        refused.answer.headers["Retry-After"] = str(math.ceil(wait))
        raise refused
    try:
        issued = services.access.tokens.issue_for_client(client_id, secret)
    except Unauthenticated as error:
        attempts.record_failure(client_id, address)
        _note_failure(request, services, f"client {client_id}", error.message, 401)
        hint = "" if client_id else "; the credential must be CLIENT_ID:CLIENT_SECRET"
        refused = _Refused("invalid_client", f"{error.message}{hint}", 401)
        if basic is not None:
            refused.answer.headers["WWW-Authenticate"] = 'Basic realm="firn"'
        raise refused from error
    attempts.record_success(client_id, address)
    return issued


def _note_failure(request: Request, services: ServicesDep, target: str, detail: str, status: int) -> None:
    """Record a failed sign-in with the next batch, so that no stranger can flood the audit log."""
    shown = "".join(char if char.isprintable() else "\ufffd" for char in target[:LONGEST_TARGET])
    services.access.audit_log.record_decision(
        AuditEntry(
            at=datetime.now(UTC),
            verdict=Verdict.UNAUTHENTICATED,
            principal=None,
            principal_id=None,
            token_id=None,
            method=request.method,
            route=request.url.path[:255],
            catalog=None,
            target=shown,
            detail=detail,
            changes=True,
            request_id=request_id.get() or "",
            address=_address(request),
            status=status,
        )
    )


def _address(request: Request) -> str:
    return "" if request.client is None else request.client.host[:64]


def _exchanged(request: Request, services: ServicesDep, form: dict[str, str]) -> Issued:
    """Exchange the client's own token, or one of the issuer; acting for others is not supported."""
    if "actor_token" in form:
        raise _Refused("invalid_request", "actor_token: acting for somebody else is not supported")
    kind = form.get("subject_token_type")
    if kind not in _TOKEN_TYPES or "subject_token" not in form:
        raise _Refused("invalid_request", f"subject_token_type {kind}: known are {', '.join(sorted(_TOKEN_TYPES))}")
    try:
        return services.access.tokens.exchange(form["subject_token"])
    except Unauthenticated as error:
        _note_failure(request, services, "token exchange", error.message, 400)
        raise


def _form(content: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(content.decode("ascii"), keep_blank_values=True, strict_parsing=True, max_num_fields=50)
    except ValueError as error:
        raise _Refused("invalid_request", "the body is not a form") from error
    if len(dict(pairs)) < len(pairs):
        raise _Refused("invalid_request", "a parameter appears twice")
    return dict(pairs)


def _basic(authorization: str | None) -> tuple[str, str] | None:
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        client_id, colon, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise _Refused("invalid_client", "the Authorization header is not Basic authentication", 401) from error
    return (unquote_plus(client_id), unquote_plus(secret)) if colon else None
