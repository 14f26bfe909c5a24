"""Metastores that are spoken to over TLS, and that ask who one is: a guard before the real one does both."""

from __future__ import annotations

import datetime as dt
import ipaddress
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic import SecretStr, ValidationError

from catalog.errors import Unavailable
from catalog.locations.paths import parse_metastore_address
from firn.embedded.metastore import EmbeddedMetastore
from server.hive_settings import HiveSettings
from server.metastore import HiveMetastore, MetastoreSettings
from server.metastore.security import Authentication, MetastoreSecurity

START, OK, BAD, COMPLETE = 1, 2, 3, 5
"""What thrift's SASL messages begin with."""


@dataclass
class Guard:
    """Takes TLS off, and with `passwords` asks for one as SASL PLAIN does; then everything goes to the metastore."""

    target: tuple[str, int]
    certificate: Path
    passwords: dict[str, str] | None = None
    let_in: list[str] = field(default_factory=list)
    heard: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.certificate)
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with suppress(OSError, EOFError), near, self._context.wrap_socket(near, server_side=True) as client:
            if self.passwords is not None and not self._knows(client, self.passwords):
                return
            with socket.create_connection(self.target) as far:
                self._relay(client, far, framed=self.passwords is not None)

    def _knows(self, client: socket.socket, passwords: dict[str, str]) -> bool:
        assert _message(client) == (START, b"PLAIN")
        status, credentials = _message(client)
        assert status == OK
        _, user, password = credentials.decode().split("\0")
        is_known = passwords.get(user) == password
        answer = (COMPLETE, b"") if is_known else (BAD, b"who are you?")
        client.sendall(struct.pack(">BI", answer[0], len(answer[1])) + answer[1])
        self.let_in += [user] if is_known else []
        return is_known

    def _relay(self, client: socket.socket, far: socket.socket, *, framed: bool) -> None:
        """One call after the other, as a client's connection goes."""

        def back() -> None:
            while data := far.recv(65536):
                client.sendall(struct.pack(">I", len(data)) + data if framed else data)

        threading.Thread(target=_quietly, args=(back,), daemon=True).start()
        while data := _frame(client) if framed else client.recv(65536):
            self.heard += data
            far.sendall(data)


def _quietly(act: Callable[[], None]) -> None:
    with suppress(OSError):
        act()


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _message(connection: socket.socket) -> tuple[int, bytes]:
    status, length = struct.unpack(">BI", _exactly(connection, 5))
    return status, _exactly(connection, length)


def _frame(connection: socket.socket) -> bytes:
    (length,) = struct.unpack(">I", _exactly(connection, 4))
    return _exactly(connection, length)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and its own certificate for 127.0.0.1, in one file."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hms")])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path_factory.mktemp("tls") / "metastore.pem"
    path.write_bytes(secret + signed.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def guarded(metastore_process: EmbeddedMetastore, certificate: Path) -> Iterator[Callable[..., Guard]]:
    guards: list[Guard] = []

    def make(**passwords: str) -> Guard:
        guards.append(Guard(parse_metastore_address(metastore_process.uri), certificate, passwords or None))
        return guards[-1]

    yield make
    for file in guards:
        file.close()


@pytest.fixture
def client() -> Iterator[Client]:
    clients: list[HiveMetastore] = []

    def connecting(guard: Guard, security: MetastoreSecurity) -> HiveMetastore:
        settings = MetastoreSettings(uris=(guard.uri,), connections=2, connect_timeout_seconds=5, security=security)
        clients.append(HiveMetastore(settings))
        return clients[-1]

    yield connecting
    for file in clients:
        file.close()


Client = Callable[[Guard, MetastoreSecurity], HiveMetastore]


def test_a_metastore_behind_tls_is_spoken_to(client: Client, guarded: Callable[..., Guard], certificate: Path) -> None:
    guard = guarded()
    assert "default" in client(guard, MetastoreSecurity(tls=True, ca_file=certificate)).databases()


def test_a_metastore_that_nobody_vouches_for_is_told_nothing(client: Client, guarded: Callable[..., Guard]) -> None:
    with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
        client(guarded(), MetastoreSecurity(tls=True)).databases()


def test_a_user_and_password_open_the_door(client: Client, guarded: Callable[..., Guard], certificate: Path) -> None:
    guard = guarded(firn="secret")

    def security(password: str) -> MetastoreSecurity:
        return MetastoreSecurity(True, certificate, Authentication.PLAIN, "firn", password)

    opened = client(guard, security("secret"))
    assert "default" in opened.databases()
    assert opened.health()
    assert guard.let_in == ["firn"]
    with pytest.raises(Unavailable, match="who are you"):
        client(guard, security("guessed")).databases()
    assert "guessed" not in repr(security("guessed"))


def test_a_metastore_that_takes_names_as_they_are_said_is_told_one(
    client: Client, guarded: Callable[..., Guard], certificate: Path
) -> None:
    guard = guarded()
    assert client(guard, MetastoreSecurity(tls=True, ca_file=certificate, user="ada")).databases()
    assert b"set_ugi" in guard.heard
    assert b"ada" in guard.heard


def test_half_an_identity_is_refused_at_the_start() -> None:
    with pytest.raises(ValidationError, match=r"needs hive\.user"):
        HiveSettings(authentication="plain", tls=True)
    with pytest.raises(ValidationError, match=r"needs hive\.tls"):
        HiveSettings(authentication="plain", user="firn", password=SecretStr("x"))
