"""One table from the domain's errors to HTTP, one shape for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from catalog.errors import (
    CatalogError,
    CommitUnknown,
    Conflict,
    Dismissed,
    Forbidden,
    Invalid,
    LeaseLost,
    NotFound,
    Protected,
    Unauthenticated,
    Unavailable,
)
from server.logs import request_id

STATUS: Mapping[type[CatalogError], tuple[int, str]] = {
    NotFound: (404, "not_found"),
    Dismissed: (409, "dismissed"),
    Conflict: (409, "conflict"),
    Unauthenticated: (401, "unauthenticated"),
    LeaseLost: (403, "lease_lost"),
    Protected: (403, "protected"),
    Forbidden: (403, "forbidden"),
    Invalid: (400, "invalid"),
    Unavailable: (503, "unavailable"),
}


class Problem(BaseModel):
    """What went wrong and what to do about it."""

    code: str
    message: str
    hint: str | None = None
    request_id: str | None = None


class ErrorBody(BaseModel):
    """The body of every refusal."""

    error: Problem


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What an endpoint may refuse with, for its documentation."""
    return {status: {"model": ErrorBody} for status in statuses}


def refused(_request: Request, error: Exception) -> JSONResponse:
    """A refusal: nothing was changed."""
    assert isinstance(error, CatalogError)  # registered for these alone
    status, code = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    return _body(status, code, error.message, error.hint, _challenge(error))


def unknown(_request: Request, error: Exception) -> JSONResponse:
    """Nobody knows whether it was done."""
    assert isinstance(error, CommitUnknown)  # registered for it alone
    return _body(500, "unknown", str(error), "look whether it was done before trying again")


def malformed(_request: Request, error: Exception) -> JSONResponse:
    """A request that does not parse."""
    assert isinstance(error, RequestValidationError)  # registered for it alone
    lines = (f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in error.errors())
    return _body(422, "malformed", "; ".join(lines), None)


def unroutable(_request: Request, error: Exception) -> JSONResponse:
    """A request that reaches no route, or whose body is no JSON at all."""
    assert isinstance(error, HTTPException)  # registered for it alone
    return _body(error.status_code, "not_found" if error.status_code == 404 else "malformed", error.detail, None)


def turned_away(status: int, message: str) -> JSONResponse:
    """A request that no route is to see."""
    return _body(status, "forbidden" if status == 403 else "malformed", message, None)


def unexpected(_request: Request, _error: Exception) -> JSONResponse:
    """A bug; the log has the trace."""
    return _body(500, "internal", "internal error", "the server's log has it under this request's id")


def _challenge(error: CatalogError) -> dict[str, str]:
    """What a client is told that has to say who it is (RFC 6750)."""
    return {"WWW-Authenticate": 'Bearer realm="firn"'} if isinstance(error, Unauthenticated) else {}


def _body(
    status: int, code: str, message: str, hint: str | None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    shown = None if hint is None else _writable(hint)
    problem = Problem(code=code, message=_writable(message), hint=shown, request_id=request_id.get())
    return JSONResponse({"error": problem.model_dump()}, status, headers)


def _writable(text: str) -> str:
    """A message may quote what a client has sent, half a surrogate pair among it."""
    return text if text.isascii() else text.encode(errors="replace").decode()
