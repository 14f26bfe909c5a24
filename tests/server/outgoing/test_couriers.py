"""Deliveries to real receivers on loopback: webhooks with a signature, Slack, and mails."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from catalog.errors import Invalid, Unavailable
from catalog.notifications.message import Message, build_test_message
from catalog.notifications.rule import Target, encode_secret
from firn.protocol.notifications import Channel
from server.outgoing.couriers import Couriers
from server.outgoing.mail import MailServer
from tests.docs.blocks import DOCS, blocks
from tests.receivers import free_port, http_receiver, smtp_receiver

KEY = bytes(range(32))
MESSAGE = build_test_message("r", UUID(int=7), datetime(2026, 11, 28, tzinfo=UTC), "https://firn.example")
HOSTILE = replace(MESSAGE, title="x\r\nBcc: all@example.com\r\n\r\nbody", text="a\r\n.\r\nQUIT\r\n.dot")


def webhook(url: str) -> Target:
    return Target(channel=Channel.WEBHOOK, url=url, secret=encode_secret(KEY))


def test_a_webhook_gets_a_signed_event() -> None:
    with http_receiver() as receiver:
        Couriers("firn", None, clock=lambda: 1_000.9).send(webhook(receiver.url), MESSAGE)
    (got,) = receiver.received
    assert got.path == "/hooks/firn"
    assert got.headers["content-type"] == "application/cloudevents+json"
    assert (got.headers["webhook-id"], got.headers["webhook-timestamp"]) == (MESSAGE.id, "1000")
    content = f"{MESSAGE.id}.1000.".encode() + got.body
    expected = base64.b64encode(hmac.new(KEY, content, hashlib.sha256).digest()).decode()
    assert got.headers["webhook-signature"] == f"v1,{expected}"
    assert json.loads(got.body)["type"] == "firn.notification.test"


def test_the_function_of_the_page_verifies_the_signature() -> None:
    page = (DOCS / "notifications.md").read_text("utf-8")
    code = next(block.text for block in blocks(page) if "def is_from_firn" in block.text)
    names: dict[str, Any] = {}
    exec(code, names)
    with http_receiver() as receiver:
        Couriers("firn", None).send(webhook(receiver.url), MESSAGE)
        Couriers("firn", None, clock=lambda: time.time() - 600).send(webhook(receiver.url), MESSAGE)
    verify, (got, old) = names["is_from_firn"], receiver.received
    assert verify(encode_secret(KEY), got.headers, got.body)
    assert not verify(encode_secret(KEY), got.headers, got.body + b" ")
    assert not verify(encode_secret(b"1" * 32), got.headers, got.body)
    assert not verify(encode_secret(KEY), old.headers, old.body)


def test_slack_gets_a_text() -> None:
    with http_receiver() as receiver:
        Couriers("firn", None).send(Target(channel=Channel.SLACK, url=receiver.url), MESSAGE)
    body = json.loads(receiver.received[0].body)
    assert "*Test of the rule r*" in body["text"]
    assert "<https://firn.example/notifications|Open in Firn>" in body["text"]


@pytest.mark.parametrize(
    ("status", "error", "text"),
    [
        (400, Invalid, "refuses the message: 400"),
        (410, Invalid, "410"),
        (401, Unavailable, "answers 401"),
        (404, Unavailable, "404"),
        (429, Unavailable, "429"),
        (500, Unavailable, "500"),
        (302, Unavailable, "follows no redirects"),
    ],
)
def test_answers_are_understood(status: int, error: type[Exception], text: str) -> None:
    with http_receiver() as receiver:
        receiver.status = status
        with pytest.raises(error, match=text) as raised:
            Couriers("firn", None).send(webhook(f"{receiver.url}?key=s3cret"), MESSAGE)
    assert len(receiver.received) == 1
    assert "s3cret" not in str(raised.value)


def test_receivers_that_do_not_answer_are_left() -> None:
    with listening(b"") as port, pytest.raises(Unavailable, match="does not answer"):
        Couriers("firn", None, seconds=0.3).send(webhook(f"http://127.0.0.1:{port}/"), MESSAGE)
    for url in (f"http://127.0.0.1:{free_port()}/", "http://no.such.host.invalid/", "http://169.254.169.254/"):
        with pytest.raises(Unavailable):
            Couriers("firn", None, seconds=2).send(webhook(url), MESSAGE)


def mails(port: int, **values: object) -> MailServer:
    defaults = {"host": "127.0.0.1", "port": port, "sender": "firn@example.com", "security": "none"}
    return MailServer(**{**defaults, **values})  # type: ignore[arg-type]


@pytest.mark.parametrize("message", [MESSAGE, HOSTILE, replace(MESSAGE, title="größer \u202e 表")])
def test_a_mail_arrives_whole_and_alone(message: Message) -> None:
    with smtp_receiver() as receiver:
        mails(receiver.port).send(["ann@example.com", "bob@example.com"], message)
    (mail,) = receiver.mails
    assert mail["To"] == "ann@example.com, bob@example.com"
    assert mail["Bcc"] is None
    assert mail["Subject"].startswith("Firn: ")
    assert mail["Message-ID"] == f"<{message.id}@example.com>"
    assert mail.get_content().rstrip().endswith("https://firn.example/notifications")
    assert [command for command in receiver.commands if command[:4].upper() == "RCPT"] == [
        "rcpt TO:<ann@example.com>",
        "rcpt TO:<bob@example.com>",
    ]


def test_refused_recipients_and_mails() -> None:
    with smtp_receiver() as receiver:
        server = mails(receiver.port)
        receiver.refused = frozenset({"bob"})
        with pytest.raises(Invalid, match=r"bob@example\.com; the others got the mail"):
            server.send(["ann@example.com", "bob@example.com"], MESSAGE)
        with pytest.raises(Invalid, match="refuses all recipients: no such user"):
            server.send(["bob@example.com"], MESSAGE)
        receiver.answer = "554 no"
        with pytest.raises(Invalid, match="554 no"):
            server.send(["ann@example.com"], MESSAGE)
        receiver.answer = "451 later"
        with pytest.raises(Unavailable, match="451 later"):
            server.send(["ann@example.com"], MESSAGE)


def test_mail_servers_that_do_not_answer_or_encrypt() -> None:
    with pytest.raises(Unavailable, match="does not answer"):
        mails(free_port()).send(["ann@example.com"], MESSAGE)
    with smtp_receiver() as receiver, pytest.raises(Unavailable):
        mails(receiver.port, security="starttls", username="u", password="s3cret").send(["a@b"], MESSAGE)
    assert not any("AUTH" in command for command in receiver.commands)
    with listening(b"2") as port, pytest.raises(Unavailable):
        mails(port, seconds=0.5).send(["a@b"], MESSAGE)
    assert "s3cret" not in repr(mails(1, username="u", password="s3cret"))


def test_a_server_without_a_mail_server_says_so() -> None:
    courier = Couriers("firn", None)
    assert not courier.can_mail
    with pytest.raises(Unavailable, match="no mail server"):
        courier.send(Target(channel=Channel.MAIL, recipients=("a@b",)), MESSAGE)


@contextmanager
def listening(drip: bytes) -> Iterator[int]:
    """A server that takes connections and says nothing, or one byte after the other."""
    listener, ends = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def serve() -> None:
        try:
            connection, _ = listener.accept()
            with connection:
                while not ends.wait(0.1):
                    connection.sendall(drip)
        except OSError:
            return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        ends.set()
        listener.close()
        thread.join(5)
