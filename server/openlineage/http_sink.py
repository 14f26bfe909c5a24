"""An HTTP endpoint that takes OpenLineage events: no redirects, bounded in time, and its answers are not read."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from catalog.errors import Invalid, Unavailable
from server.outgoing.post import post

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
        headers = {"Content-Type": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        hint = "check lineage.url"
        self._check_status(post(self.url, event, headers, shown=self._place, seconds=self.seconds, hint=hint))

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
