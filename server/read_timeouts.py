"""Time-outs for reading requests: the server disconnects a client that sends half a request, or sends too slowly.

Uvicorn closes idle connections after an answer, and waits for ever for the rest of a request. A few thousand such
connections would use up the files that a process may open.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

_WRAPPING = 16
"""Bytes that a byte of a body may be wrapped in, so that small chunks are no offence."""
_ANSWER = b"HTTP/1.1 %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LATE = _ANSWER % b"408 Request Timeout"
_TOO_LARGE = _ANSWER % b"431 Request Header Fields Too Large"


class TimedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with limits on how long a client may take to send a request.

    Time that the server takes does not count: a body that nobody reads yet is not the client's fault.
    """

    header_seconds = 15.0
    """The time from the connection, or the first byte of a later request, until all headers have arrived."""
    body_seconds = 30.0
    """The period in which the client must send `least_body_bytes`, or the end of the body."""
    least_body_bytes = 16 * 1024
    most_header_bytes = 256 * 1024
    """Of the headers of one request, and of what chunks of a body are wrapped in: the parser keeps all of it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._waits_since: float | None = None
        """Since when the server waits for the rest of a request; None if it does not wait."""
        self._owes_body = False
        self._body_bytes = 0
        self._other_bytes = 0
        """Of this request, besides its body."""
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
        if self._waits_since is None and self._is_answered:
            self._expect_headers()  # even if it is an empty line before a request, which the parser passes over
        self._other_bytes += len(data)
        super().data_received(data)
        if self._other_bytes > self.most_header_bytes and not self.transport.is_closing():
            self._hang_up(_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._waits_since is None or self._owes_body:
            self._expect_headers()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._waits_since, self._owes_body, self._body_bytes = self.loop.time(), True, 0
        self._other_bytes = 0

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        left = self._other_bytes - (1 + _WRAPPING) * len(body)
        self._other_bytes = max(left, -self.most_header_bytes)  # a large body is no licence for large trailers
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._waits_since, self._other_bytes = None, 0
        super().on_message_complete()

    def _expect_headers(self) -> None:
        self._waits_since, self._owes_body, self._other_bytes = self.loop.time(), False, 0

    def _look_again(self) -> None:
        """Use one timer per connection instead of one per request."""
        pause = min(self.header_seconds, self.body_seconds) / 4
        self._timer = self.loop.call_later(pause, self._look)

    def _look(self) -> None:
        if self.transport.is_closing():
            return
        if self._waits_since is not None and self._is_late(self.loop.time() - self._waits_since):
            self._hang_up(_TOO_LATE)
            return
        self._look_again()

    def _is_late(self, seconds: float) -> bool:
        if not self._owes_body:
            return self._is_answered and seconds > self.header_seconds  # else they are of a request that has to wait
        if self.flow.read_paused or self.cycle.waiting_for_100_continue:  # the server does not read now
            self._waits_since, self._body_bytes = self.loop.time(), 0
            return False
        if seconds <= self.body_seconds:
            return False
        is_slow = self._body_bytes < self.least_body_bytes or self._is_answered
        self._waits_since, self._body_bytes = self.loop.time(), 0
        return is_slow

    @property
    def _is_answered(self) -> bool:
        """Whether the last request, if any, has been answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # as uvicorn has it before the first request
        return cycle is None or cycle.response_complete

    def _hang_up(self, answer: bytes) -> None:
        if self._is_answered or not self.cycle.response_started:
            self.transport.write(answer)
        self.transport.close()
