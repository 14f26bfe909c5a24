"""A fast path for the most frequent requests of engines: load a table, check that it exists, commit to it.

Routing, dependencies and the layers around a route take longer than a load itself (docs/decisions/0020). Here one
expression knows such a request, and it goes to the function of its route; all others go to the application, which also
describes these.
"""

from __future__ import annotations

import logging
import re
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from catalog.errors import CatalogError
from server.iceberg import commits, tables
from server.iceberg.requests import body_value, table_call
from server.middleware import named

log = logging.getLogger(__name__)

Gate = Callable[[Request, object], None]
"""The dependency of every route; it gets the request and its parsed body."""
_TABLE = re.compile(r"/iceberg/v1/(?P<catalog>[^/]+)/namespaces/(?P<namespace>[^/]+)/tables/(?P<table>[^/]+)")


@dataclass(frozen=True, slots=True)
class _FastRoute:
    """The route, parser and function of one kind of request."""

    route: APIRoute
    read: Callable[[Request], Awaitable[Any]]
    serve: Callable[[Any], Response]


class FastPath:
    """ASGI application before the catalog's own; `gate` is what every route of that depends on, if anything.

    Its threads are its own: those of the framework are handed out with much ado.
    """

    def __init__(self, app: FastAPI, gate: Gate | None, threads: int) -> None:
        self.app = app
        self._threads = ThreadPoolExecutor(threads, "shortcut")
        self._gate = gate
        self._fast_routes = {
            "GET": _FastRoute(_find_route(tables.router, tables.load_table), table_call, tables.load_table),
            "HEAD": _FastRoute(_find_route(tables.router, tables.table_exists), table_call, tables.table_exists),
            "POST": _FastRoute(
                _find_route(commits.router, commits.commit_table), commits.commit_call, commits.commit_table
            ),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or pass it to the application."""
        fast_route = self._fast_routes.get(scope["method"])
        match = None if fast_route is None else _TABLE.fullmatch(scope["path"])
        if fast_route is None or match is None:
            await self.app(scope, receive, send)
            return
        scope.update(app=self.app, route=fast_route.route, path_params=named(match.groupdict()))
        request = Request(scope, receive)
        response = await self._answer(fast_route, request)
        await response(scope, receive, send)

    async def _answer(self, fast_route: _FastRoute, request: Request) -> Response:
        """Run the route, or the application's handler of its exception."""
        try:
            body = await body_value(request)
            serve = partial(
                copy_context().run, self._serve, fast_route, request, body, await _read(fast_route, request)
            )
            return await get_running_loop().run_in_executor(self._threads, serve)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except Exception as error:
            kind = next(kind for kind in type(error).__mro__ if kind in self.app.exception_handlers)
            if kind is Exception:
                log.exception("a request failed")
            return cast("Response", self.app.exception_handlers[kind](request, error))  # no handler is a coroutine

    def _serve(self, fast_route: _FastRoute, request: Request, body: object, call: Any) -> Response:
        if self._gate is not None:
            self._gate(request, body)
        if isinstance(call, Exception):
            raise call
        return fast_route.serve(call)


async def _read(fast_route: _FastRoute, request: Request) -> Any:
    """Parse the call; returns its error, which only an authorized caller gets."""
    try:
        return await fast_route.read(request)
    except (CatalogError, HTTPException) as error:
        return error


def _find_route(router: APIRouter, endpoint: Callable[..., Any]) -> APIRoute:
    return next(route for route in router.routes if isinstance(route, APIRoute) and route.endpoint is endpoint)
