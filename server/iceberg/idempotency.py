"""Idempotency keys on the wire: one run of each request, however often it comes (specification: idempotency-key)."""

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
"""What a service has remembered of an applied request, as JSON gives it back."""


def no_content(_said: StoredResult = None) -> Response:
    """What most repeated requests are answered."""
    return Response(status_code=204)


def done(act: Callable[[], object]) -> Callable[[], Response]:
    """An act that has nothing to tell."""

    def acted() -> Response:
        act()
        return no_content()

    return acted


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """Runs a request unless it was settled before; `asked` goes to the service that applies it."""

    request: Request
    services: Services
    asked: Idempotency | None

    def run(self, do: Callable[[], Response], again: Callable[[StoredResult], Response] = no_content) -> Response:
        """The answer of `do`, or what `again` makes of the stored one; a stored refusal is told again.

        Unavailable is not stored: with the same key the request can come again.
        """
        if self.asked is None:
            return do()
        settled = self._settled(self.asked, again)
        if settled is not None:
            return settled
        try:
            return do()
        except Unavailable:
            raise
        except CatalogError as error:
            return self._refused(self.asked, error, again)

    def _settled(self, asked: Idempotency, again: Callable[[StoredResult], Response]) -> Response | None:
        with self.services.database.reading() as uow:
            answer = uow.idempotency_keys.find(asked.stored_under)
        if answer is None:
            return None
        if answer.fingerprint != asked.fingerprint:
            raise Invalid(f"idempotency key {asked.key} was used for another request", hint="take a new key")
        if answer.status == APPLIED:
            return again(orjson.loads(answer.body))
        return Response(answer.body, answer.status, media_type="application/json")

    def _refused(self, asked: Idempotency, error: CatalogError, again: Callable[[StoredResult], Response]) -> Response:
        """Settle a refusal before it is told: a twin that still runs could otherwise be applied after it."""
        refusal = answer_refusal(self.request, error)
        with suppress(Conflict), self.services.database.writing() as uow:
            settle(uow, asked, status=refusal.status_code, body=bytes(refusal.body))
        return self._settled(asked, again) or refusal


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
    """For a request without a body."""
    return _make_request(request, _key(request), b"")


async def idempotent_with_body(request: Request, body: JsonBody) -> IdempotentRequest:
    """For a request with a JSON body."""
    return idempotent_request(request, body)


def idempotent_request(request: Request, body: object) -> IdempotentRequest:
    """The same, outside of a dependency."""
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
    asked = Idempotency(key=key, fingerprint=fingerprint(request.method, target, body), owner=owner)
    return IdempotentRequest(request, services, asked)


def fingerprint(method: str, target: bytes, body: bytes) -> str:
    """A digest by which a request is known from every other; `target` is its path and query as they were sent."""
    return hashlib.sha256(b"\n".join((method.encode(), target, body))).hexdigest()


IdempotentDep = Annotated[IdempotentRequest, Depends(idempotent)]
IdempotentWithBodyDep = Annotated[IdempotentRequest, Depends(idempotent_with_body)]
