"""Clients that send half a request, over raw sockets: they are hung up on, and others are not."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from server.read_timeouts import TimedProtocol
from tests.server.listening import listening

HEAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
PATIENCE = 10.0
"""Far more than the time-outs below: a server that never hangs up fails the test by it."""


class Impatient(TimedProtocol):
    header_seconds = 0.3
    body_seconds = 0.3
    least_body_bytes = 1000


class Unhurried(TimedProtocol):
    header_seconds = 60.0
    body_seconds = 0.3
    least_body_bytes = 1000


async def _size_of_body(scope: Scope, receive: Receive, send: Send) -> None:
    try:
        size = len(await Request(scope, receive).body())
    except ClientDisconnect:
        return
    await PlainTextResponse(f"{size} bytes")(scope, receive, send)


async def _refusing(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("no", 401)(scope, receive, send)


@pytest.fixture(scope="module")
def impatient() -> Iterator[str]:
    with listening(_size_of_body, Impatient) as url:
        yield url


@contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=PATIENCE) as connection:
        yield connection


def answer(connection: socket.socket) -> bytes:
    """All that the server says until it hangs up."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\r\n",
        b"GET / HT",
        HEAD + b"X-Half: a heade",
        HEAD + b"Content-Length: 5\r\n\r\n",
        HEAD + b"Content-Length: 5\r\n\r\n123",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\n123\r\n",
    ],
)
def test_half_a_request_is_hung_up_on(impatient: str, sent: bytes) -> None:
    with connected(impatient) as connection:
        connection.sendall(sent)
        assert answer(connection).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("first", [HEAD, HEAD + b"Content-Length: 100000\r\n\r\n"])
def test_a_request_that_trickles_in_is_hung_up_on(impatient: str, first: bytes) -> None:
    with connected(impatient) as connection:
        connection.sendall(first)
        connection.settimeout(0.02)
        give_up = time.monotonic() + PATIENCE
        heard = b""
        while not heard and time.monotonic() < give_up:
            connection.sendall(b"a")
            try:
                heard = connection.recv(1000)
            except TimeoutError:
                continue
        assert heard.startswith(b"HTTP/1.1 408 ")


def test_half_of_a_second_request_is_hung_up_on(impatient: str) -> None:
    with connected(impatient) as connection:
        connection.sendall(HEAD + b"Content-Length: 3\r\n\r\n123" + HEAD)
        heard = answer(connection)
        assert b"3 bytes" in heard
        assert heard.count(b"HTTP/1.1 ") == 2 or heard.endswith(b"3 bytes")


def _send_for(connection: socket.socket, seconds: float) -> None:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        connection.sendall(b"x" * 100_000)


def test_a_body_that_nobody_reads_is_not_received_for_ever() -> None:
    with listening(_refusing, Impatient) as url, connected(url) as connection:
        connection.sendall(HEAD + b"Content-Length: 1000000000\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 401 ")
        with pytest.raises(OSError, match=r"(?i)reset|broken pipe"):
            _send_for(connection, PATIENCE)


def test_a_large_body_that_keeps_coming_is_read_to_its_end() -> None:
    with listening(_size_of_body, Unhurried) as url, connected(url) as connection:
        connection.sendall(HEAD + b"Connection: close\r\nContent-Length: 40000\r\n\r\n")
        for _ in range(5):
            connection.sendall(b"x" * 8000)
            time.sleep(0.1)  # in all longer than a span of the time-out, which is the server's loop's own time
        assert b"40000 bytes" in answer(connection)


@pytest.mark.parametrize(
    "before",
    [
        b"GET /",
        HEAD + b"X-Endless: ",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 1000 + b"0\r\nX-Trailer: ",
    ],
    ids=["url", "header", "extension", "trailer"],
)
def test_headers_without_an_end_are_not_kept(before: bytes) -> None:
    with listening(_size_of_body, Unhurried) as url, connected(url) as connection:
        connection.sendall(before)
        with pytest.raises(OSError, match=r"(?i)reset|broken pipe"):
            _send_for(connection, PATIENCE)


def test_small_chunks_are_no_offence(impatient: str) -> None:
    with connected(impatient) as connection:
        chunks = b"1\r\na\r\n" * 100_000
        connection.sendall(HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
        assert b"100000 bytes" in answer(connection)
