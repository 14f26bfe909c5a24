"""The HTTP status and body of each of the domain's errors; all bodies have one shape."""

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
    InvalidDefinition,
    LeaseLost,
    NotFound,
    PipelineCycle,
    Protected,
    StaleDefinition,
    Unauthenticated,
    Unavailable,
)
from server.logs import request_id

STATUS: Mapping[type[CatalogError], tuple[int, str]] = {
    NotFound: (404, "not_found"),
    StaleDefinition: (409, "stale_definition"),
    PipelineCycle: (409, "cycle"),
    Dismissed: (409, "dismissed"),
    Conflict: (409, "conflict"),
    Unauthenticated: (401, "unauthenticated"),
    LeaseLost: (403, "lease_lost"),
    Protected: (403, "protected"),
    Forbidden: (403, "forbidden"),
    InvalidDefinition: (400, "invalid_definition"),
    Invalid: (400, "invalid"),
    Unavailable: (503, "unavailable"),
}


class Problem(BaseModel):
    """The error, and in `hint` what to do about it."""

    code: str
    message: str
    hint: str | None = None
    request_id: str | None = None


class ErrorBody(BaseModel):
    """The body of every answer that reports an error."""

    error: Problem


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the error statuses of a route for the API document."""
    return {status: {"model": ErrorBody} for status in statuses}


def answer_refusal(_request: Request, error: Exception) -> JSONResponse:
    """Answer an error of the domain: the request changed nothing."""
    assert isinstance(error, CatalogError)  # the app registers this handler only for these
    status, code = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    return _body(status, code, error.message, error.hint, _challenge_headers(error))


def answer_unknown_commit(_request: Request, error: Exception) -> JSONResponse:
    """Answer a request whose commit may or may not have happened."""
    assert isinstance(error, CommitUnknown)  # the app registers this handler only for it
    return _body(500, "unknown", str(error), "check whether it happened before you try again")


def answer_malformed(_request: Request, error: Exception) -> JSONResponse:
    """Answer a request whose parameters or body do not have the types of the route."""
    assert isinstance(error, RequestValidationError)  # the app registers this handler only for it
    lines = (f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}" for problem in error.errors())
    return _body(422, "malformed", "; ".join(lines), None)


def answer_unroutable(_request: Request, error: Exception) -> JSONResponse:
    """Answer a request that matches no route, or whose body is not JSON."""
    assert isinstance(error, HTTPException)  # the app registers this handler only for it
    return _body(error.status_code, "not_found" if error.status_code == 404 else "malformed", error.detail, None)


def build_refusal(status: int, message: str) -> JSONResponse:
    """Build the answer to a request that a middleware refuses."""
    return _body(status, "forbidden" if status == 403 else "malformed", message, None)


def answer_bug(_request: Request, _error: Exception) -> JSONResponse:
    """Answer a request that failed because of a bug; the log has the trace."""
    return _body(500, "internal", "internal error", "the server's log has the error under this request's id")


def _challenge_headers(error: CatalogError) -> dict[str, str]:
    """Build the headers that ask an unauthenticated client for a token (RFC 6750)."""
    return {"WWW-Authenticate": 'Bearer realm="firn"'} if isinstance(error, Unauthenticated) else {}


def _body(
    status: int, code: str, message: str, hint: str | None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    shown = None if hint is None else _replace_surrogates(hint)
    problem = Problem(code=code, message=_replace_surrogates(message), hint=shown, request_id=request_id.get())
    return JSONResponse({"error": problem.model_dump()}, status, headers)


def _replace_surrogates(text: str) -> str:
    """Make a message encodable: it may quote half a surrogate pair from a client."""
    return text if text.isascii() else text.encode(errors="replace").decode()
