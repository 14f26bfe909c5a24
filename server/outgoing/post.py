"""A POST to an address that somebody has named: no redirects, bounded in time, and the answer's body is not read."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from threading import Timer
from urllib.parse import urlsplit

import httpx

from catalog.errors import Invalid, Unavailable
from catalog.locations.addresses import check_address

READ_SECONDS = 5.0
"""How long the other side may be silent."""


def post(url: str, content: bytes, headers: Mapping[str, str], *, shown: str, seconds: float, hint: str | None) -> int:
    """Send the content and return the status of the answer; Unavailable without one. `shown` names the address.

    `seconds` is the time for all of it, also if the other side answers one byte after the other.
    """
    _check_host(url, hint)
    timeout = httpx.Timeout(min(READ_SECONDS, seconds))
    # A client for each request: what ends a slow answer is closing its connection.
    with httpx.Client(timeout=timeout, follow_redirects=False, trust_env=False) as client:
        timer = Timer(seconds, client.close)
        timer.daemon = True
        timer.start()
        try:
            with client.stream("POST", url, content=content, headers=dict(headers)) as answer:
                return answer.status_code
        except (httpx.HTTPError, httpx.InvalidURL, RuntimeError, OSError) as error:  # RuntimeError after the timer
            raise Unavailable(f"{shown} does not answer: {str(error) or type(error).__name__}") from error
        finally:
            timer.cancel()


def _check_host(url: str, hint: str | None) -> None:
    """Raise Unavailable for addresses that are no other server's, such as that of a cloud's metadata."""
    host = urlsplit(url).hostname or ""
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Unavailable(f"the name {host} cannot be resolved: {reason}") from error
    try:
        for *_, address in addresses:
            check_address(str(address[0]).partition("%")[0])
    except Invalid as error:
        raise Unavailable(error.message, hint=hint) from error
