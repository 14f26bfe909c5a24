"""The HTTP sink of OpenLineage events: what an endpoint gets, and what a hostile or slow one can do."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from catalog.errors import Invalid, Unavailable
from server.openlineage.http_sink import HttpSink

EVENT = b'{"eventType": "START"}'


@contextmanager
def endpoint(answer: Callable[[socket.socket], None]) -> Iterator[tuple[str, list[bytes]]]:
    """A server on loopback that reads a request, and then does what `answer` does; its address and what it got."""
    listener, got = socket.create_server(("127.0.0.1", 0)), list[bytes]()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                got.append(b"")
                while not got[-1].endswith(EVENT):
                    got[-1] += connection.recv(65_536)
                try:
                    answer(connection)
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/api/v1/lineage", got
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(60)


def says(status: str, *headers: str) -> Callable[[socket.socket], None]:
    text = "\r\n".join([f"HTTP/1.1 {status}", *headers, "Content-Length: 0", "Connection: close", "", ""])
    return lambda connection: connection.sendall(text.encode())


def test_an_endpoint_gets_the_event_and_the_token() -> None:
    with endpoint(says("201 Created")) as (url, got):
        HttpSink(url, "s3cret").send(EVENT)
    head, _, body = got[0].partition(b"\r\n\r\n")
    assert body == EVENT
    assert head.startswith(b"POST /api/v1/lineage HTTP/1.1\r\n")
    assert b"content-type: application/json" in head.lower()
    assert b"Authorization: Bearer s3cret" in head
    assert "s3cret" not in repr(HttpSink(url, "s3cret"))


@pytest.mark.parametrize(
    ("status", "error", "text"),
    [
        ("400 Bad Request", Invalid, "refuses an event: 400"),
        ("422 Unprocessable", Invalid, "422"),
        ("401 Unauthorized", Unavailable, "answers 401"),
        ("404 Not Found", Unavailable, "404"),
        ("429 Too Many Requests", Unavailable, "429"),
        ("500 Internal Server Error", Unavailable, "500"),
        ("302 Found", Unavailable, "follows no redirects"),
    ],
)
def test_answers_are_understood(status: str, error: type[Exception], text: str) -> None:
    with (
        endpoint(says(status, "Location: http://127.0.0.1:1/")) as (url, got),
        pytest.raises(error, match=text) as raised,
    ):
        HttpSink(f"{url}?key=s3cret").send(EVENT)
    assert len(got) == 1
    assert "s3cret" not in str(raised.value)


def drip(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for _ in range(100):
        connection.sendall(b"X: y\r\n")
        time.sleep(0.1)


def test_an_endpoint_that_never_ends_its_answer_is_left() -> None:
    """Each read succeeds in time, but the whole does not."""
    with endpoint(drip) as (url, _), pytest.raises(Unavailable, match="does not answer"):
        HttpSink(url, seconds=0.5).send(EVENT)


def test_an_endless_body_is_not_read() -> None:
    def pour(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65_536)

    with endpoint(pour) as (url, _):
        HttpSink(url).send(EVENT)


def test_a_silent_endpoint_and_none_at_all_are_left() -> None:
    with endpoint(lambda _: time.sleep(2)) as (url, _), pytest.raises(Unavailable, match="does not answer"):
        HttpSink(url, seconds=0.2).send(EVENT)
    with pytest.raises(Unavailable, match="does not answer"):
        HttpSink("http://127.0.0.1:1/").send(EVENT)


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "0.0.0.0", "224.0.0.1"])
def test_addresses_of_no_other_server_get_nothing(host: str) -> None:
    with pytest.raises(Unavailable, match="no address of another server"):
        HttpSink(f"http://{host}/").send(EVENT)
