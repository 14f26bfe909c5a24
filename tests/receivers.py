"""Receivers of notifications on loopback: an HTTP server, and an SMTP server of a few commands."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Received:
    """One request."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class HttpReceiver:
    """Answers every POST with `status`."""

    url: str = ""
    status: int = 200
    received: list[Received] = field(default_factory=list)


@contextmanager
def http_receiver() -> Iterator[HttpReceiver]:
    receiver = HttpReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.received.append(Received(self.path, headers, body))
            self.send_response(receiver.status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/hooks/firn"
    with _serving(server):
        yield receiver


@dataclass
class SmtpReceiver:
    """Takes mails. `refused` are recipients that it does not know; `answer` is the answer to a mail's content."""

    port: int = 0
    answer: str = "250 taken"
    refused: frozenset[str] = frozenset()
    commands: list[str] = field(default_factory=list)
    mails: list[EmailMessage] = field(default_factory=list)


@contextmanager
def smtp_receiver() -> Iterator[SmtpReceiver]:
    receiver = SmtpReceiver()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 firn.test")
            while line := self.rfile.readline():
                command = line.decode().strip()
                receiver.commands.append(command)
                verb = command.partition(" ")[0].upper()
                if verb == "DATA":
                    self._say("354 go on")
                    self._take()
                elif verb == "RCPT" and any(refused in command for refused in receiver.refused):
                    self._say("550 no such user")
                elif verb == "QUIT":
                    self._say("221 bye")
                    return
                else:
                    self._say("250 OK")

        def _take(self) -> None:
            lines = []
            while (line := self.rfile.readline()) not in (b".\r\n", b""):
                lines.append(line.removeprefix(b"."))
            mail = message_from_bytes(b"".join(lines), policy=policy.default)
            receiver.mails.append(mail)
            self._say(receiver.answer)

        def _say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.port = server.server_address[1]
    with _serving(server):
        yield receiver


@contextmanager
def _serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
