"""GET and token requests to an address from a user: no redirects, bounded in time and size.

Callers see only the message of an Iceberg error, never other content.  Otherwise a user who may start imports could
read other HTTP services in the server's network.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson

from catalog.errors import CatalogError, Forbidden, Invalid, NotFound, Unavailable
from catalog.locations.addresses import check_address

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
ANSWER_SECONDS = 120.0
LARGEST_ANSWER = 64 * 1024 * 1024
_LONGEST_MESSAGE = 300


class Web:
    """HTTP requests to one host. Safe to share between threads."""

    def __init__(self, url: str, transport: httpx.BaseTransport | None = None) -> None:
        """Send nothing before the first request."""
        self._url = url
        timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        # A proxy of the environment is for external addresses: its 127.0.0.1 is another machine.
        self._http = httpx.Client(
            timeout=timeout, follow_redirects=False, transport=transport, trust_env=not _is_loopback(url)
        )
        self._resolved = transport is not None

    def get(self, url: str, params: Mapping[str, str], headers: Mapping[str, str]) -> Any:
        """Send a GET request and return the answer's JSON; see `catalog.ports.imports.ForeignCatalog` for failures."""
        return self._answer(
            self._http.build_request("GET", url, params=dict(params), headers={"Accept": "application/json", **headers})
        )

    def post_form(self, url: str, form: Mapping[str, str]) -> Any:
        """Send a form and return the answer's JSON; failures as for `get`."""
        return self._answer(self._http.build_request("POST", url, data=dict(form)))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _answer(self, request: httpx.Request) -> Any:
        url = f"{request.url.scheme}://{request.url.netloc.decode()}{request.url.path}"
        self._check_host(request.url.host)
        try:
            answer = self._http.send(request, stream=True)
            try:
                body = _read_bounded(answer, url)
            finally:
                answer.close()
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise Unavailable(f"{url} does not answer: {reason}", hint="check that the catalog runs there") from error
        if answer.is_success:
            return _parse(body, url)
        raise _describe_refusal(answer.status_code, body, url)

    def _check_host(self, host: str) -> None:
        """Check the addresses of a host name, which can be forbidden ones; resolved only once per client."""
        if self._resolved:
            return
        try:
            addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise Unavailable(f"the name {host} cannot be resolved: {error.strerror or error}") from error
        for *_, address in addresses:
            check_address(str(address[0]).partition("%")[0])
        self._resolved = True


def _read_bounded(answer: httpx.Response, url: str) -> bytes:
    """Read the body; Invalid when it is too long, Unavailable when it takes too long."""
    parts, length, deadline = [], 0, time.monotonic() + ANSWER_SECONDS
    for part in answer.iter_bytes():
        parts.append(part)
        length += len(part)
        if length > LARGEST_ANSWER:
            raise Invalid(f"{url} answers with more than {LARGEST_ANSWER // 2**20} MiB")
        if time.monotonic() > deadline:
            raise Unavailable(f"{url} takes more than {ANSWER_SECONDS:.0f} s for one answer")
    return b"".join(parts)


def _parse(body: bytes, url: str) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Invalid(f"{url} does not answer like an Iceberg REST catalog", hint="check the address") from error


def _describe_refusal(status: int, body: bytes, url: str) -> CatalogError:
    message = f"{url} answers {status}{_read_message(body)}"
    if 300 <= status < 400:
        return Invalid(f"{url} redirects, which the server does not follow", hint="use the address of the redirect")
    if status in (401, 403):
        return Forbidden(message, hint="use a token or credential that may read there")
    if status == 404:
        return NotFound(message)
    if status in (408, 429) or status >= 500:
        return Unavailable(message)
    return Invalid(message)


def _read_message(body: bytes) -> str:
    """Get the message of an Iceberg error; empty for any other answer."""
    try:
        message = orjson.loads(body)["error"]["message"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ""
    return f": {message[:_LONGEST_MESSAGE]}" if isinstance(message, str) else ""


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False
