"""Middleware of every request: its id, caller, log line and metrics, and names with slashes in paths."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.body_limits import Limits, limited
from server.logs import request_id
from server.prometheus import REQUESTS, SECONDS
from server.security_headers import SecurityHeaders
from server.service.access.caller import Caller, caller

log = logging.getLogger(__name__)

_API_PATHS = ("/iceberg/v1/", "/api/v1/")
_ENCODED_SLASH = re.compile(rb"%2f", re.IGNORECASE)
_SLASH_IN_NAME = "\udc2f"
"""Half a surrogate pair stands for a slash in a name, because no path of a client decodes to it."""
_HEADER = b"x-request-id"
_CLIENT = b"x-client-version"
_ICEBERG_JAVA = b"Apache Iceberg "
_SANE = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestRecords:
    """ASGI middleware that gives each request its id and caller, logs it and counts it.

    Each answer tells browsers what they may do with it, by `headers`.
    """

    def __init__(self, app: ASGIApp, headers: SecurityHeaders) -> None:
        self.app = app
        self.headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        requested_id = headers.get(_HEADER, b"").decode("latin-1")
        identity = requested_id if _SANE.fullmatch(requested_id) else uuid4().hex[:16]
        token = request_id.set(identity)
        names = (headers.get(name, b"").decode("latin-1") for name in (_CLIENT, b"user-agent"))
        caller_token = caller.set(Caller.of(*names))
        scope.setdefault("state", {})  # here, so that all inner middleware shares it
        status, began = 500, time.perf_counter()

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                guards = self.headers.of(scope["path"])
                message["headers"] = [*message.get("headers", []), (_HEADER, identity.encode()), *guards]
            await send(message)

        try:
            await self.app(scope, receive, sent)
        finally:
            answered = scope["state"].get("when_answered")  # see server.guard.gate
            if answered is not None:
                answered(status)
            _record(scope, status, time.perf_counter() - began)
            request_id.reset(token)
            caller.reset(caller_token)


def _record(scope: Scope, status: int, seconds: float) -> None:
    path, method = scope["path"], scope["method"]
    area = path.strip("/").partition("/")[0] or "console"
    if area not in ("iceberg", "api", "metrics", "healthz", "readyz"):
        area = "console"
    REQUESTS.labels(area, method, str(status)).inc()
    SECONDS.labels(area, method).observe(seconds)
    level = logging.INFO if area == "iceberg" or status >= 400 else logging.DEBUG
    log.log(level, "request", extra={"method": method, "path": path, "status": status, "ms": round(seconds * 1000, 1)})


class SlashesInNames:
    """ASGI middleware that distinguishes a slash inside a name (`%2F`) from a separator in the path of an API.

    Servers decode the whole path before it is routed, which would make both the same. `restore_slashes` is the other
    half of it; the console's own paths stay as they are.

    Older versions of Iceberg's Java library, such as Trino's 1.9, write a space in a name as a form does, `+`, and a
    plus as `%2B`. For others a plus is one, so who asks decides, as in `catalog.names.decode_parent`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http" and scope["path"].startswith(_API_PATHS):
            raw = scope["raw_path"]
            if b"+" in raw and dict(scope["headers"]).get(_CLIENT, b"").startswith(_ICEBERG_JAVA):
                raw = raw.replace(b"+", b"%20")
            parts = _ENCODED_SLASH.split(raw)
            if len(parts) > 1 or raw != scope["raw_path"]:
                scope = {**scope, "path": _SLASH_IN_NAME.join(unquote(part.decode("latin-1")) for part in parts)}
        await self.app(scope, receive, send)


class Below:
    """ASGI middleware that passes requests below a path to the application mounted there.

    As mounting it would, without routing each request twice and wrapping it in exception handlers twice. Bodies are
    read up to their route's limit; beyond it each application answers in its own way.
    """

    def __init__(self, app: ASGIApp, applications: Mapping[str, tuple[ASGIApp, Limits]], max_body_bytes: int) -> None:
        self.app = app
        self.applications = applications
        self.max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request."""
        if scope["type"] == "http":
            for path, (application, limits) in self.applications.items():
                if scope["path"].startswith(path):
                    inner = {**scope, "root_path": path.rstrip("/")}
                    await application(inner, limited(receive, inner, limits, self.max_body_bytes), send)
                    return
        await self.app(scope, receive, send)


def named(path_params: Mapping[str, Any]) -> dict[str, Any]:
    """Decode the names in a path."""
    return {
        name: text.replace(_SLASH_IN_NAME, "/") if isinstance(text, str) else text for name, text in path_params.items()
    }


async def restore_slashes(request: Request) -> None:
    """Decode the names in the path, as the first dependency of all routes of an API."""
    request.scope["path_params"] = named(request.scope["path_params"])
