"""Authentication, before anything else in the request is read, including its body."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from anyio.to_thread import run_sync
from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from catalog.access.audit_log import AuditEntry, Verdict
from catalog.access.privileges import Caller
from catalog.errors import CatalogError, CommitUnknown, Forbidden, TokenEnded, Unauthenticated, Unavailable
from firn.protocol.query_leases import QUERY_LEASE_HEADER
from server.api import errors as api_errors
from server.iceberg import errors as iceberg_errors
from server.logs import request_id
from server.service.access.access_control import Access
from server.service.access.caller import caller

OPEN = frozenset(
    {
        "/healthz",
        "/readyz",
        "/docs",
        "/iceberg/v1/oauth/tokens",
        "/iceberg/v1/openapi.json",
        "/api/v1/login",
        "/api/v1/openapi.json",
        "/api/v1/docs",
    }
)
"""The paths that need no token, besides the console's files: sign-in, probes, and documents that are the same on every
server."""
_GUARDED = ("/api/", "/iceberg/", "/metrics")


class Authenticate:
    """ASGI middleware that stores the caller in the request's state, or answers 401."""

    def __init__(self, app: ASGIApp, access: Access, find_reader: Callable[[str, Caller], Caller]) -> None:
        self.app = app
        self.access = access
        self.find_reader = find_reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate one request by its Authorization header."""
        if scope["type"] != "http" or is_open(scope["path"]):
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        try:
            authenticated = await self._caller(request.headers.get("authorization"))
            request.state.caller = await self._limit_to_query(request, authenticated)
            caller.set(replace(caller.get(), principal=request.state.caller.principal.name))
        except (CatalogError, CommitUnknown) as error:
            if isinstance(error, Unauthenticated):
                self.access.audit_log.record_decision(_build_entry(request))
            if isinstance(error, TokenEnded) and request.method == "POST" and _is_iceberg(request):
                request.state.ended = error  # the gate refuses the request, unless it repeats an applied commit
                await self.app(scope, receive, send)
                return
            await _answer(request, error)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    async def _caller(self, header: str | None) -> Caller:
        scheme, _, token = (header or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated("access to this server needs a token", hint="send Authorization: Bearer TOKEN")
        recalled = self.access.token_checker.recall(token)
        return await run_sync(self.access.token_checker.check, token) if recalled is None else recalled

    async def _limit_to_query(self, request: Request, authenticated: Caller) -> Caller:
        """The caller of a request. The session of a query in Spark reads what the query reads, and nothing else.

        It happens before anything asks for the caller: the credentials of a table depend on the caller's rights, too.
        """
        lease = request.headers.get(QUERY_LEASE_HEADER)
        if lease is None:
            return authenticated
        if not _is_iceberg(request):
            raise Forbidden(f"the header {QUERY_LEASE_HEADER} is for requests to the catalog")
        return await run_sync(self.find_reader, lease, authenticated)


def is_open(path: str) -> bool:
    """Whether a path needs no token."""
    return path in OPEN or not path.startswith(_GUARDED)


def _is_iceberg(request: Request) -> bool:
    return request.url.path.startswith("/iceberg/")


def _answer(request: Request, error: CatalogError | CommitUnknown) -> JSONResponse:
    is_iceberg = _is_iceberg(request)
    if is_iceberg and isinstance(error, Unavailable) and request.method not in ("GET", "HEAD"):
        error = CommitUnknown(f"cannot check whether an earlier attempt was applied: {error.message}")
    errors = iceberg_errors if is_iceberg else api_errors
    answer: Callable[[Request, Exception], JSONResponse] = (
        errors.answer_unknown_commit if isinstance(error, CommitUnknown) else errors.answer_refusal
    )
    return answer(request, error)


def _build_entry(request: Request) -> AuditEntry:
    return AuditEntry(
        at=datetime.now(UTC),
        verdict=Verdict.UNAUTHENTICATED,
        principal=None,
        principal_id=None,
        token_id=None,
        method=request.method[:8],
        route=request.url.path[:255],
        catalog=None,
        target="",
        changes=request.method not in ("GET", "HEAD"),
        request_id=request_id.get() or "",
        address="" if request.client is None else request.client.host,
        status=401,
    )
