"""The wire's own error map: the specification's body and the exception names that clients switch on.

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
    Unauthenticated,
    Unavailable,
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
    """A refusal: nothing was changed."""
    assert isinstance(error, CatalogError)  # registered for these alone
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
    """Nobody knows whether it was applied: clients then delete nothing."""
    assert isinstance(error, CommitUnknown)  # registered for it alone
    return error_response(500, "CommitStateUnknownException", str(error))


def error_response(status: int, name: str, message: str) -> JSONResponse:
    """The specification's error body."""
    return JSONResponse({"error": {"message": message, "type": name, "code": status}}, status)


def answer_malformed(_request: Request, error: Exception) -> JSONResponse:
    """A request that does not parse."""
    assert isinstance(error, RequestValidationError)  # registered for it alone
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return error_response(400, "BadRequestException", f"malformed request: {where}: {first['msg']}")


def answer_unroutable(_request: Request, error: Exception) -> JSONResponse:
    """A request that reaches no route, or whose body is no JSON at all."""
    assert isinstance(error, HTTPException)  # registered for it alone
    names = {404: "NotFoundException", 405: "UnsupportedOperationException"}
    return error_response(error.status_code, names.get(error.status_code, "BadRequestException"), error.detail)


def answer_bug(_request: Request, _error: Exception) -> JSONResponse:
    """A bug. On a commit clients take it for unknown, which it is; the log has the trace."""
    return error_response(500, "InternalServerError", "internal error; the server's log has it under this request's id")
