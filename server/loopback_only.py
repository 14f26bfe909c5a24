"""Which requests a server without access control answers: those that a program of this machine makes on purpose.

Without access control the only guard is that the server listens on loopback. A web page that somebody opens on this
machine gets past it: browsers send requests to loopback for any page, and a page whose name is resolved to 127.0.0.1
(DNS rebinding) even reads the answers. Programs such as engines send none of the headers that give a page away.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from server.api import errors as api_errors
from server.iceberg import errors as iceberg_errors

TOKEN_ROUTE = "/iceberg/v1/oauth/tokens"  # noqa: S105 (a path, no secret)
"""Its bodies are forms, as in OAuth; without access control it changes nothing and issues no token."""
SWITCH_ON = "To serve others, switch access control on (FIRN_ACCESS__ENABLED=true, see docs/security.md)."

_PROGRAMS = ("/api/", "/iceberg/", "/metrics")
_HOST = re.compile(rb"(?P<name>localhost|[0-9.]+|\[::1\])(:[0-9]{1,5})?")
_JSON = re.compile(rb"application/json[ \t]*(;.*)?", re.IGNORECASE)
_EMPTY = frozenset({b"", b"0"})
_OWN_SITES = frozenset({b"same-origin", b"none"})
_READ = frozenset(
    {b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"content-type", b"content-length", b"transfer-encoding"}
)

Headers = Mapping[bytes, Sequence[bytes]]
Refusal = tuple[int, str]


class LoopbackOnly:
    """ASGI middleware that refuses requests from pages of other sites, or to another host than this machine."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request to the application, or refuse it before reading its body."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})  # the server has no WebSocket
            return
        refusal = _refusal_of(scope)
        if refusal is None:
            await self.app(scope, receive, send)
        else:
            await _answer(scope, *refusal)(scope, receive, send)


def _refusal_of(scope: Scope) -> Refusal | None:
    """Find why a request must be refused; None for one that may pass."""
    headers: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        if name in _READ:
            headers.setdefault(name, []).append(value)
    return _refused_page(scope, headers) or _refused_body(scope, headers)


def _refused_page(scope: Scope, headers: Headers) -> Refusal | None:
    hosts, origins, sites = headers.get(b"host", []), headers.get(b"origin", []), headers.get(b"sec-fetch-site", [])
    if len(hosts) != 1 or not is_loopback_host(hosts[0]):
        return 403, _wrong_host(hosts)
    if not all(_is_own(origin, hosts[0]) for origin in origins):
        return 403, f"The page {_shown(origins[0])} may not use this server: it belongs to another site. {SWITCH_ON}"
    if not all(site in _OWN_SITES for site in sites) and not _opens_a_page(scope, headers):
        return 403, f"A page of another site may not use this server (Sec-Fetch-Site: {_shown(sites[0])}). {SWITCH_ON}"
    return None


def _refused_body(scope: Scope, headers: Headers) -> Refusal | None:
    """Refuse bodies other than JSON: browsers send JSON to another site only with permission, which Firn denies."""
    has_body = b"transfer-encoding" in headers or any(
        length not in _EMPTY for length in headers.get(b"content-length", ())
    )
    if not has_body or scope["path"] == TOKEN_ROUTE:
        return None
    types = headers.get(b"content-type", [])
    if types and all(_JSON.fullmatch(media_type) for media_type in types):
        return None
    named = _shown(types[0]) if types else "none"
    return 415, f"A request with a body needs the header Content-Type: application/json; this one has {named}."


@lru_cache(maxsize=256)
def is_loopback_host(host: bytes) -> bool:
    """Whether a Host header names this machine by an address of 127.0.0.0/8, `[::1]` or `localhost`.

    Any other name could be resolved to this machine by whoever owns it, `localhost.` and `a.localhost` among them.
    """
    match = _HOST.fullmatch(host.lower())
    if match is None:
        return False
    name = match["name"].decode("ascii")
    if name in ("localhost", "[::1]"):
        return True
    try:
        return ipaddress.IPv4Address(name).is_loopback
    except ValueError:
        return False


def _is_own(origin: bytes, host: bytes) -> bool:
    """Whether a page comes from this server; a page from another port belongs to another program."""
    return origin.lower() in (b"http://" + host.lower(), b"https://" + host.lower())


def _opens_a_page(scope: Scope, headers: Headers) -> bool:
    """Whether the request follows a link to a page of the console, which changes nothing and cannot be framed."""
    is_page = scope["method"] == "GET" and not scope["path"].startswith(_PROGRAMS)
    return is_page and headers.get(b"sec-fetch-mode") == [b"navigate"]


def _wrong_host(hosts: Sequence[bytes]) -> str:
    named = f"as {_shown(hosts[0])}" if len(hosts) == 1 else f"with {len(hosts)} Host headers instead of one"
    return (
        f"The request addresses this server {named}. "
        "Without access control it answers only to localhost, 127.0.0.1 and [::1]. "
        f"{SWITCH_ON}"
    )


def _shown(value: bytes) -> str:
    return repr(value[:100].decode("latin-1"))


def _answer(scope: Scope, status: int, message: str) -> Response:
    if scope["path"].startswith("/iceberg/"):
        name = "ForbiddenException" if status == 403 else "BadRequestException"
        return iceberg_errors.error_response(status, name, message)
    if scope["path"].startswith("/api/"):
        return api_errors.build_refusal(status, message)
    return PlainTextResponse(f"{message}\n", status)
