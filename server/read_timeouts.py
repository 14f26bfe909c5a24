"""Time-outs of reading requests: a client that sends half a request, or very little at a time, is hung up on.

Uvicorn closes idle connections after an answer, and waits for ever for the rest of a request. A few thousand such
connections would use up the files that a process may open.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_ANSWER = b"request was not sent in time"
_TIMED_OUT = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_ANSWER), _ANSWER)
)


class TimedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with limits on how long a client may take to send a request.

    Time that the server takes does not count: a body that nobody reads yet is not the client's fault.
    """

    header_seconds = 15.0
    """From the connection, or the first byte of a later request, until all headers are there."""
    body_seconds = 30.0
    """In each such span the client sends `least_body_bytes`, or the end."""
    least_body_bytes = 16 * 1024

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._waits_since: float | None = None
        """Since when the client owes the rest of something; None: it owes nothing."""
        self._owes_body = False
        self._body_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._expect_headers()
        self._look_again()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._waits_since is None and (self.cycle is None or self.cycle.response_complete):
            self._expect_headers()  # even if it is an empty line before a request, which the parser passes over
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._waits_since is None or self._owes_body:
            self._expect_headers()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._waits_since, self._owes_body, self._body_bytes = self.loop.time(), True, 0

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._waits_since = None
        super().on_message_complete()

    def _expect_headers(self) -> None:
        self._waits_since, self._owes_body = self.loop.time(), False

    def _look_again(self) -> None:
        """One timer for each connection, instead of one for each request."""
        pause = min(self.header_seconds, self.body_seconds) / 4
        self._timer = self.loop.call_later(pause, self._look)

    def _look(self) -> None:
        if self.transport.is_closing():
            return
        if self._waits_since is not None and self._is_late(self.loop.time() - self._waits_since):
            self._hang_up()
            return
        self._look_again()

    def _is_late(self, seconds: float) -> bool:
        is_answered = self.cycle is None or self.cycle.response_complete
        if not self._owes_body:
            return is_answered and seconds > self.header_seconds  # else they are of a request that has to wait
        if self.flow.read_paused or self.cycle.waiting_for_100_continue:  # the server has not asked for more
            self._waits_since, self._body_bytes = self.loop.time(), 0
            return False
        if seconds <= self.body_seconds:
            return False
        is_slow = self._body_bytes < self.least_body_bytes or is_answered
        self._waits_since, self._body_bytes = self.loop.time(), 0
        return is_slow

    def _hang_up(self) -> None:
        if not self._owes_body or not self.cycle.response_started:
            self.transport.write(_TIMED_OUT)
        self.transport.close()
