"""Idempotency keys: each request runs once, however often the client sends it (specification: idempotency-key)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import Depends, Request, Response

from catalog.errors import CatalogError, Conflict, Invalid, Unavailable
from server.iceberg.errors import answer_refusal
from server.iceberg.requests import JsonBody, caller_of
from server.service.commit.idempotency import APPLIED, Idempotency, settle
from server.service.services import Services

StoredResult = Any
"""The stored result of an applied request, decoded from JSON."""


def no_content(_result: StoredResult = None) -> Response:
    """Build the usual answer to a repeated request."""
    return Response(status_code=204)


def answer_empty(act: Callable[[], object]) -> Callable[[], Response]:
    """Wrap an action so that it answers without content."""

    def acted() -> Response:
        act()
        return no_content()

    return acted


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """Runs a request unless its outcome is stored; the service that applies it gets `idempotency`."""

    request: Request
    services: Services
    idempotency: Idempotency | None

    def run(self, do: Callable[[], Response], again: Callable[[StoredResult], Response] = no_content) -> Response:
        """Run `do`, or build the answer from the stored result with `again`; a stored refusal is repeated.

        Unavailable is not stored: with the same key the request can come again.
        """
        if self.idempotency is None:
            return do()
        settled = self._settled(self.idempotency, again)
        if settled is not None:
            return settled
        try:
            return do()
        except Unavailable:
            raise
        except CatalogError as error:
            return self._refused(self.idempotency, error, again)

    def _settled(self, idempotency: Idempotency, again: Callable[[StoredResult], Response]) -> Response | None:
        with self.services.database.reading() as uow:
            answer = uow.idempotency_keys.find(idempotency.stored_under)
        if answer is None:
            return None
        if answer.fingerprint != idempotency.fingerprint:
            raise Invalid(f"idempotency key {idempotency.key} was used for another request", hint="use a new key")
        if answer.status == APPLIED:
            return again(orjson.loads(answer.body))
        return Response(answer.body, answer.status, media_type="application/json")

    def _refused(
        self, idempotency: Idempotency, error: CatalogError, again: Callable[[StoredResult], Response]
    ) -> Response:
        """Store a refusal before answering it, because a concurrent repetition could still be applied."""
        refusal = answer_refusal(self.request, error)
        with suppress(Conflict), self.services.database.writing() as uow:
            settle(uow, idempotency, status=refusal.status_code, body=bytes(refusal.body))
        return self._settled(idempotency, again) or refusal


def _key(request: Request) -> str | None:
    idempotency_key = request.headers.get("idempotency-key")
    if idempotency_key is None:
        return None
    request.state.keyed = True
    try:
        return str(UUID(idempotency_key))
    except ValueError as error:
        raise Invalid(f"invalid idempotency key {idempotency_key!r}: expected a UUID") from error


async def idempotent(request: Request) -> IdempotentRequest:
    """Read the idempotency key of a request without a body."""
    return _make_request(request, _key(request), b"")


async def idempotent_with_body(request: Request, body: JsonBody) -> IdempotentRequest:
    """Read the idempotency key of a request with a JSON body."""
    return idempotent_request(request, body)


def idempotent_request(request: Request, body: object) -> IdempotentRequest:
    """Read the idempotency key outside of a dependency."""
    key = _key(request)
    return _make_request(request, key, b"" if key is None else orjson.dumps(body, option=orjson.OPT_SORT_KEYS))


def _make_request(request: Request, key: str | None, body: bytes) -> IdempotentRequest:
    services: Services = request.app.state.services
    if key is None:
        return IdempotentRequest(request, services, None)
    path, query = request.scope["raw_path"], request.scope["query_string"]
    target = path + b"?" + query if query else path
    caller = caller_of(request)
    owner = "" if caller is None else str(caller.principal.id)
    idempotency = Idempotency(key=key, fingerprint=compute_fingerprint(request.method, target, body), owner=owner)
    return IdempotentRequest(request, services, idempotency)


def compute_fingerprint(method: str, target: bytes, body: bytes) -> str:
    """Compute the digest that identifies a request; `target` is its path and query as sent."""
    return hashlib.sha256(b"\n".join((method.encode(), target, body))).hexdigest()


IdempotentDep = Annotated[IdempotentRequest, Depends(idempotent)]
IdempotentWithBodyDep = Annotated[IdempotentRequest, Depends(idempotent_with_body)]
