"""Connections to Kafka that an administrator creates: `client.connections`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firn.history import quoted
from firn.protocol.answers.connections import ConnectionCheckOut, ConnectionOut
from firn.protocol.connections import Mechanism, Security
from firn.transport import Transport

_PATH = "/connections"


@dataclass(frozen=True, slots=True)
class Connections:
    """The server's connections, which tables name as `firn.log.connection`."""

    transport: Transport

    def list(self) -> list[ConnectionOut]:
        """All connections by name, without passwords."""
        return [ConnectionOut.read(document) for document in self.transport.get(_PATH)]

    def get(self, name: str) -> ConnectionOut:
        """One connection, without its password."""
        return ConnectionOut.read(self.transport.get(f"{_PATH}/{quoted(name)}"))

    def create(
        self,
        name: str,
        brokers: Sequence[str],
        *,
        security: Security | str = Security.PLAINTEXT,
        mechanism: Mechanism | str | None = None,
        username: str | None = None,
        password: str | None = None,
        ca: str | None = None,
    ) -> ConnectionOut:
        """Create a connection. The server keeps the password encrypted. `ca` is the text of PEM certificates."""
        body = {
            "name": name,
            "brokers": [*brokers],
            "security": str(security),
            "mechanism": None if mechanism is None else str(mechanism),
            "username": username,
            "password": password,
            "ca": ca,
        }
        return ConnectionOut.read(self.transport.change("POST", _PATH, body))

    def check(self, name: str) -> ConnectionCheckOut:
        """Have the server sign in to the cluster."""
        return ConnectionCheckOut.read(self.transport.change("POST", f"{_PATH}/{quoted(name)}/check"))

    def drop(self, name: str) -> None:
        """Drop a connection."""
        self.transport.change("DELETE", f"{_PATH}/{quoted(name)}")
