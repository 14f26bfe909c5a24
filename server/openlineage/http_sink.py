"""An HTTP endpoint that takes OpenLineage events: no redirects, bounded in time, and its answers are not read."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from threading import Timer
from urllib.parse import urlsplit

import httpx

from catalog.errors import Invalid, Unavailable
from catalog.locations.addresses import check_address

READ_SECONDS = 5.0
"""How long the endpoint may be silent."""
SECONDS = 10.0
"""How long one event may take, also if the endpoint answers one byte after the other."""
_REFUSALS = frozenset({400, 413, 415, 422})


@dataclass(frozen=True)
class HttpSink:
    """Sends each event by POST. `token` is a bearer token."""

    url: str
    token: str | None = field(default=None, repr=False)
    seconds: float = SECONDS

    def send(self, event: bytes) -> None:
        """See catalog.ports.lineage_events.LineageSink."""
        self._check_host()
        headers = {"Content-Type": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        timeout = httpx.Timeout(min(READ_SECONDS, self.seconds))
        # A client for each event: what ends a slow answer is closing its connection.
        with httpx.Client(timeout=timeout, follow_redirects=False, trust_env=False) as client:
            timer = Timer(self.seconds, client.close)
            timer.daemon = True
            timer.start()
            try:
                with client.stream("POST", self.url, content=event, headers=headers) as answer:
                    status = answer.status_code
            except (httpx.HTTPError, RuntimeError, OSError) as error:  # RuntimeError after the timer
                raise Unavailable(f"{self._place} does not answer: {str(error) or type(error).__name__}") from error
            finally:
                timer.cancel()
        self._check_status(status)

    @property
    def _place(self) -> str:
        """The address without its query, which may hold a key."""
        return urlsplit(self.url)._replace(query="", fragment="").geturl()

    def _check_status(self, status: int) -> None:
        """Only an answer about the event itself is final: an operator can mend a wrong address or token."""
        if status in _REFUSALS:
            raise Invalid(f"{self._place} refuses an event: {status}")
        if not 200 <= status < 300:
            follows = ", and the server follows no redirects" if 300 <= status < 400 else ""
            raise Unavailable(f"{self._place} answers {status}{follows}", hint="check lineage.url and lineage.token")

    def _check_host(self) -> None:
        """Raise Unavailable for addresses that are no other server's, such as that of a cloud's metadata."""
        host = urlsplit(self.url).hostname or ""
        try:
            addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise Unavailable(f"the name {host} cannot be resolved: {error.strerror or error}") from error
        try:
            for *_, address in addresses:
                check_address(str(address[0]).partition("%")[0])
        except Invalid as error:
            raise Unavailable(error.message, hint="check lineage.url") from error
