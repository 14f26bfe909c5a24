"""The messages of SASL with Kerberos, against a metastore's side of a few lines. The library is a fake."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from thrift.transport.TSocket import TSocket

from server.kerberos.errors import KerberosError
from server.metastore.gssapi_sasl import GssapiClient, GssapiTransport, Protection, _find_host_name

START, OK, BAD, ERROR, COMPLETE = 1, 2, 3, 4, 5
AUTHENTICATION, INTEGRITY, PRIVACY = Protection


@dataclass
class FakeContext:
    """Exchanges two tokens; "signs" and "encrypts" with a letter in front."""

    is_complete: bool = False
    released: int = 0
    tokens: list[bytes] = field(default_factory=list)

    def step(self, token: bytes) -> bytes:
        self.tokens.append(token)
        if token == b"forged":
            raise KerberosError("Message stream modified")
        self.is_complete = token == b"ticket accepted"
        return b"" if self.is_complete else b"ticket"

    def wrap(self, data: bytes, *, encrypt: bool) -> bytes:
        return (b"E" if encrypt else b"S") + data

    def unwrap(self, data: bytes) -> tuple[bytes, bool]:
        if data[:1] not in (b"E", b"S"):
            raise KerberosError("A token had an invalid signature")
        return data[1:], data[:1] == b"E"

    def release(self) -> None:
        self.released += 1


@dataclass
class FakeMetastore:
    """Authenticates one client as Hive does, and echoes its frames."""

    offer: bytes = b"S\x07\x00\xff\xff"
    token: bytes = b"ticket accepted"
    refusal: tuple[int, bytes] | None = None
    answer_prefix: bytes | None = None
    received: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    @property
    def port(self) -> int:
        port: int = self.listener.getsockname()[1]
        return port

    def _serve(self) -> None:
        connection, _ = self.listener.accept()
        with connection, connection.makefile("rb") as stream:
            try:
                self._talk(connection, stream)
            except (struct.error, OSError):
                return

    def _talk(self, connection: socket.socket, stream: Any) -> None:
        def hear() -> None:
            status, length = struct.unpack(">BI", stream.read(5))
            self.received.append((status, stream.read(length)))

        def say(status: int, data: bytes) -> None:
            connection.sendall(struct.pack(">BI", status, len(data)) + data)

        hear()
        hear()
        if self.refusal is not None:
            say(*self.refusal)
            return
        say(OK, self.token)
        hear()
        say(OK, self.offer)
        hear()
        say(COMPLETE, b"")
        while header := stream.read(4):
            data = stream.read(*struct.unpack(">i", header))
            self.received.append(data)
            if self.answer_prefix is not None:
                data = self.answer_prefix + data[1:]
            connection.sendall(struct.pack(">i", len(data)) + data)


@pytest.fixture
def context() -> FakeContext:
    return FakeContext()


def connect(metastore: FakeMetastore, context: FakeContext) -> GssapiTransport:
    near = TSocket("127.0.0.1", metastore.port)
    near.setTimeout(5000)
    return GssapiTransport(near, "hive/localhost@FIRN.TEST", GssapiClient(context))


@pytest.fixture(autouse=True)
def closing() -> Iterator[list[Any]]:
    opened: list[Any] = []
    yield opened
    for each in opened:
        each.close()


@pytest.mark.parametrize(
    ("offered", "chosen", "length", "prefix"),
    [
        (AUTHENTICATION, AUTHENTICATION, 0, b""),
        (AUTHENTICATION | INTEGRITY, INTEGRITY, 0xFFFFFF, b"S"),
        (AUTHENTICATION | INTEGRITY | PRIVACY, PRIVACY, 0xFFFFFF, b"E"),
        (PRIVACY | 64, PRIVACY, 0xFFFFFF, b"E"),
    ],
)
def test_the_strongest_offered_protection_is_used(
    context: FakeContext, closing: list[Any], offered: int, chosen: Protection, length: int, prefix: bytes
) -> None:
    metastore = FakeMetastore(offer=b"S" + bytes([offered]) + b"\x00\xff\xff")
    transport = connect(metastore, context)
    closing += [transport, metastore.listener]
    transport.open()
    transport.write(b"one ")
    transport.write(b"call")
    transport.flush()
    assert transport.readAll(8) == b"one call"
    assert metastore.received == [
        (START, b"GSSAPI"),
        (OK, b"ticket"),
        (OK, b""),
        (OK, b"S" + bytes([chosen]) + length.to_bytes(3)),
        prefix + b"one call",
    ]
    assert context.tokens == [b"", b"ticket accepted"]


def test_a_refusal_says_what_to_check(context: FakeContext, closing: list[Any]) -> None:
    metastore = FakeMetastore(refusal=(ERROR, b"GSS initiate failed"))
    closing.append(metastore.listener)
    with pytest.raises(KerberosError, match=r"does not accept the ticket for hive/localhost@FIRN\.TEST\. Check that"):
        connect(metastore, context).open()
    assert context.released == 1


def test_a_forged_token_ends_the_connection(context: FakeContext, closing: list[Any]) -> None:
    metastore = FakeMetastore(token=b"forged")
    closing.append(metastore.listener)
    with pytest.raises(KerberosError, match="Message stream modified"):
        connect(metastore, context).open()
    assert context.released == 1


@pytest.mark.parametrize("offer", [b"S\x00\x00\xff\xff", b"S\x07", b"S"])
def test_an_offer_without_a_known_protection_is_refused(context: FakeContext, closing: list[Any], offer: bytes) -> None:
    metastore = FakeMetastore(offer=offer)
    closing.append(metastore.listener)
    with pytest.raises(KerberosError, match="offers no protection"):
        connect(metastore, context).open()


def test_an_unsigned_offer_is_refused(context: FakeContext, closing: list[Any]) -> None:
    """Somebody between the two could ask for less protection."""
    metastore = FakeMetastore(offer=b"\x01\x00\x00\x00")
    closing.append(metastore.listener)
    with pytest.raises(KerberosError, match="invalid signature"):
        connect(metastore, context).open()


def test_answers_must_be_encrypted_as_agreed(context: FakeContext, closing: list[Any]) -> None:
    metastore = FakeMetastore(answer_prefix=b"S")
    transport = connect(metastore, context)
    closing += [transport, metastore.listener]
    transport.open()
    transport.write(b"call")
    transport.flush()
    with pytest.raises(KerberosError, match="promised to encrypt"):
        transport.readAll(4)


def test_a_numeric_address_is_looked_up_for_the_principal() -> None:
    assert _find_host_name("Node1.example") == "Node1.example"
    assert _find_host_name("127.0.0.1") == "localhost"
