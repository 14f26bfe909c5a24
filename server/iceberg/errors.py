"""Errors of the Iceberg REST catalog: the specification's body and the exception names that clients use.

On a commit a 5xx means "nobody knows", so a commit that is known not to be applied is never answered by one, not even
when it is the database that was away (docs/architecture.md#a-commit). One with an idempotency key is: under its key it
can come again at no risk, and as a twin of it may still be running, a refusal that could not be stored would be a
guess.
"""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from catalog.errors import (
    AlreadyExists,
    CatalogError,
    CommitUnknown,
    Conflict,
    Contradiction,
    DuplicateBatch,
    Forbidden,
    Invalid,
    LeaseLost,
    NamespaceNotEmpty,
    NoSuchCatalog,
    NoSuchNamespace,
    NoSuchPlan,
    NoSuchPlanTask,
    NoSuchTable,
    NoSuchView,
    NotFound,
    PositionMoved,
    Unauthenticated,
    Unavailable,
    WriterFenced,
)

STATUS: Mapping[type[CatalogError], tuple[int, str]] = {
    NoSuchCatalog: (404, "NotFoundException"),
    NoSuchNamespace: (404, "NoSuchNamespaceException"),
    NoSuchTable: (404, "NoSuchTableException"),
    NoSuchView: (404, "NoSuchViewException"),
    NoSuchPlan: (404, "NoSuchPlanIdException"),
    NoSuchPlanTask: (404, "NoSuchPlanTaskException"),
    NotFound: (404, "NotFoundException"),
    AlreadyExists: (409, "AlreadyExistsException"),
    NamespaceNotEmpty: (409, "NamespaceNotEmptyException"),
    Conflict: (409, "CommitFailedException"),
    Unauthenticated: (401, "NotAuthorizedException"),
    LeaseLost: (403, "LeaseLostException"),  # clients go by the code; an optimizer tells it from a missing privilege
    Forbidden: (403, "ForbiddenException"),
    DuplicateBatch: (400, "DuplicateBatchException"),
    WriterFenced: (400, "WriterFencedException"),
    PositionMoved: (400, "PositionMovedException"),
    Contradiction: (422, "UnprocessableEntityException"),
    Invalid: (
        400,
        "IllegalArgumentException",
    ),  # Java shows its message as it is; a body that does not parse is a BadRequest
    Unavailable: (503, "ServiceUnavailableException"),
}
RETRY_AFTER_SECONDS = "1"
"""Java's client repeats a 503 only when it carries this header, and then for every method."""
_KNOWN_NOT_COMMITTED = (409, "CommitFailedException")


def answer_refusal(request: Request, error: Exception) -> JSONResponse:
    """Answer an error of the domain: the request changed nothing."""
    assert isinstance(error, CatalogError)  # the app registers this handler only for these
    status, name = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    keyed = getattr(request.state, "keyed", False)
    if isinstance(error, Unavailable) and getattr(request.state, "commits", False) and not keyed:
        status, name = _KNOWN_NOT_COMMITTED
    message = f"{error.message}; {error.hint}" if error.hint else error.message
    answer = error_response(status, name, message)
    if status == 503:
        answer.headers["Retry-After"] = RETRY_AFTER_SECONDS
    if isinstance(error, Unauthenticated):
        answer.headers["WWW-Authenticate"] = 'Bearer realm="firn"'  # RFC 6750
    return answer


def answer_unknown_commit(_request: Request, error: Exception) -> JSONResponse:
    """Answer a commit with an unknown outcome, after which clients delete nothing."""
    assert isinstance(error, CommitUnknown)  # the app registers this handler only for it
    return error_response(500, "CommitStateUnknownException", str(error))


def error_response(status: int, name: str, message: str) -> JSONResponse:
    """Build the specification's error body."""
    return JSONResponse({"error": {"message": message, "type": name, "code": status}}, status)


def answer_malformed(_request: Request, error: Exception) -> JSONResponse:
    """Answer a request whose parameters or body do not have the types of the route."""
    assert isinstance(error, RequestValidationError)  # the app registers this handler only for it
    first = error.errors()[0]
    path = ".".join(str(part) for part in first["loc"])
    return error_response(400, "BadRequestException", f"malformed request: {path}: {first['msg']}")


def answer_unroutable(_request: Request, error: Exception) -> JSONResponse:
    """Answer a request that matches no route, or whose body is not JSON."""
    assert isinstance(error, HTTPException)  # the app registers this handler only for it
    names = {404: "NotFoundException", 405: "UnsupportedOperationException"}
    return error_response(error.status_code, names.get(error.status_code, "BadRequestException"), error.detail)


def answer_bug(_request: Request, _error: Exception) -> JSONResponse:
    """Answer a request that failed because of a bug; for a commit, clients treat the outcome as unknown."""
    return error_response(
        500, "InternalServerError", "internal error; the server's log has the error under this request's id"
    )
