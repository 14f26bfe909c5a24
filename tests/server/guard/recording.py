"""Both APIs with their real signatures and their real gates, and endpoints that only note what they were given."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from fastapi import APIRouter, Depends, FastAPI, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from catalog.access.privileges import Caller
from catalog.errors import CatalogError
from server import app as server_app
from server.guard import route_rules
from server.guard.gate import create_gate, model_body
from server.guard.requirements import GuardedRequest, Requirement, Rule
from server.iceberg.requests import body_value
from server.middleware import SlashesInNames, restore_slashes
from server.service.services import Services

REACHED = 299
"""What a route answers that was reached."""


@dataclass
class Record:
    """What the guard and the route have seen of one request."""

    request: GuardedRequest | None = None
    requirements: list[Requirement] = field(default_factory=list)
    values: dict[str, Any] | None = None
    """The arguments of the endpoint; None when it was not reached."""


@dataclass(frozen=True)
class Recording:
    """An application to send requests to, one at a time."""

    app: ASGIApp
    record: Record

    async def send(self, method: str, path: str, **how: Any) -> Record:
        self.record.request, self.record.values = None, None
        self.record.requirements.clear()
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://firn", trust_env=False) as client:
            answer = await client.request(method, path, **how)
        assert (answer.status_code == REACHED) == (self.record.values is not None), answer.text
        return self.record


def recording(services: Services, caller: Caller, prefix: str) -> Recording:
    """One of the two APIs as it is asked by a caller."""
    record = Record()
    modules: tuple[Any, ...]
    if prefix == "/api/v1":
        modules, needed, read = server_app._API, route_rules.API, model_body
    else:
        modules, needed, read = server_app._ICEBERG, route_rules.ICEBERG, body_value
    spied = {route: _spied(rule, record) for route, rule in needed.items()}
    enter = [Depends(restore_slashes), Depends(create_gate(spied, prefix, read))]
    app = FastAPI(redirect_slashes=False)
    app.state.services = services
    for route in endpoints(modules):
        endpoint = _recorder(route, record)
        app.add_api_route(
            route.path, endpoint, methods=sorted(route.methods or ()), response_model=None, dependencies=enter
        )
    for kind in (CatalogError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _refused)
    return Recording(SlashesInNames(_Known(app, caller, prefix)), record)


def endpoints(modules: Any) -> Iterator[APIRoute]:
    """All routes of an API in the order in which they are tried."""
    for module in modules:
        yield from _of(module.router)


def _of(router: APIRouter) -> Iterator[APIRoute]:
    for route in router.routes:
        if isinstance(route, APIRoute):
            yield route


def _recorder(route: APIRoute, record: Record) -> Any:
    def note(**values: Any) -> Response:
        record.values = values
        return Response(status_code=REACHED)

    note.__signature__ = inspect.signature(route.endpoint, eval_str=True)  # type: ignore[attr-defined]
    return note


def _spied(rule: Rule, record: Record) -> Rule:
    def requirements(request: GuardedRequest) -> Iterator[Requirement]:
        record.request = request
        for requirement in rule.requirements(request):
            record.requirements.append(requirement)
            yield requirement

    return replace(rule, requirements=requirements)


def _refused(_request: object, _error: Exception) -> Response:
    return Response(status_code=400, content=str(_error))


class _Known:
    """ASGI middleware: everything is asked by one caller, of an application that is mounted at a prefix."""

    def __init__(self, app: ASGIApp, caller: Caller, prefix: str) -> None:
        self.app, self.caller, self.prefix = app, caller, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = {"caller": self.caller}
        await self.app({**scope, "root_path": self.prefix, "state": state}, receive, send)


def named(values: Mapping[str, Any], name: str) -> Any:
    """An argument of the endpoint, or of the one value that holds all of them."""
    call = values.get("call")
    if call is None or name in values:
        return values[name]
    return getattr(call, name) if hasattr(call, name) else getattr(call.table, name)
