"""A way past the framework for what engines ask most: to load a table, to see whether it is there, to commit to it.

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

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from catalog.errors import CatalogError
from server.iceberg import tables
from server.iceberg.requests import body_value, table_call
from server.middleware import named

log = logging.getLogger(__name__)

Gate = Callable[[Request, object], None]
"""What every route depends on, given the request and its body as the route gets it."""
_TABLE = re.compile(r"/iceberg/v1/(?P<catalog>[^/]+)/namespaces/(?P<namespace>[^/]+)/tables/(?P<table>[^/]+)")


@dataclass(frozen=True, slots=True)
class _FastRoute:
    """How one kind of request is read and served."""

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
        self._ways = {
            "GET": _FastRoute(_route_of(tables.load_table), table_call, tables.load_table),
            "HEAD": _FastRoute(_route_of(tables.table_exists), table_call, tables.table_exists),
            "POST": _FastRoute(_route_of(tables.commit_table), tables.commit_call, tables.commit_table),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or hand it on."""
        way = self._ways.get(scope["method"])
        found = None if way is None else _TABLE.fullmatch(scope["path"])
        if way is None or found is None:
            await self.app(scope, receive, send)
            return
        scope.update(app=self.app, route=way.route, path_params=named(found.groupdict()))
        request = Request(scope, receive)
        response = await self._answer(way, request)
        await response(scope, receive, send)

    async def _answer(self, way: _FastRoute, request: Request) -> Response:
        """The route's, or what the application's handler of the exception makes of it."""
        try:
            body = await body_value(request)
            serve = partial(copy_context().run, self._serve, way, request, body, await _read(way, request))
            return await get_running_loop().run_in_executor(self._threads, serve)
        except ClientDisconnect:
            return Response(status_code=400)  # to nobody
        except Exception as error:
            kind = next(kind for kind in type(error).__mro__ if kind in self.app.exception_handlers)
            if kind is Exception:
                log.exception("a request failed")
            return cast("Response", self.app.exception_handlers[kind](request, error))  # none of them waits

    def _serve(self, way: _FastRoute, request: Request, body: object, call: Any) -> Response:
        if self._gate is not None:
            self._gate(request, body)
        if isinstance(call, Exception):
            raise call
        return way.serve(call)


async def _read(way: _FastRoute, request: Request) -> Any:
    """The call, or what is wrong with it, which only those are told who may make it."""
    try:
        return await way.read(request)
    except (CatalogError, HTTPException) as error:
        return error


def _route_of(endpoint: Callable[..., Any]) -> APIRoute:
    return next(one for one in tables.router.routes if isinstance(one, APIRoute) and one.endpoint is endpoint)
