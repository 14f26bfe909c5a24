"""What every request gets: an id, a caller, a line in the log, a count in the metrics."""

from __future__ import annotations

import logging
import re
import time
from uuid import uuid4

from prometheus_client import Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.logs import request_id
from server.service.caller import Caller, caller

log = logging.getLogger(__name__)

REQUESTS = Counter("firn_requests_total", "Requests answered.", ["area", "method", "status"])
SECONDS = Histogram("firn_request_seconds", "Time to answer a request.", ["area", "method"])

_HEADER = b"x-request-id"
_CLIENT = b"x-client-version"
_SANE = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestRecords:
    """ASGI middleware: gives each request its id, its caller, a line in the log and a place in the metrics."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wrap one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(_HEADER, b"").decode("latin-1")
        identity = given if _SANE.fullmatch(given) else uuid4().hex[:16]
        token = request_id.set(identity)
        caller_token = caller.set(Caller.of(headers.get(_CLIENT, b"").decode("latin-1")))
        status, began = 500, time.perf_counter()

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), (_HEADER, identity.encode())]
            await send(message)

        try:
            await self.app(scope, receive, sent)
        finally:
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
