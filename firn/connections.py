"""Connections to Kafka that an administrator creates: `client.connections`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from firn.history import quoted
from firn.protocol.answers.connections import ConnectionCheckOut, ConnectionOut
from firn.protocol.answers.logs import LogSchemaOut
from firn.protocol.connections import Mechanism, Security
from firn.transport import Transport

_PATH = "/connections"


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """Where the schemas of Avro records are."""

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)


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

    def create(  # noqa: PLR0913 -- one for each property of a connection
        self,
        name: str,
        brokers: Sequence[str],
        *,
        security: Security | str = Security.PLAINTEXT,
        mechanism: Mechanism | str | None = None,
        username: str | None = None,
        password: str | None = None,
        ca: str | None = None,
        registry: SchemaRegistry | None = None,
    ) -> ConnectionOut:
        """Create a connection. The server keeps passwords encrypted. `ca` is the text of PEM certificates.

        The schema registry is for topics with Avro records.
        """
        body = {
            "name": name,
            "brokers": [*brokers],
            "security": str(security),
            "mechanism": None if mechanism is None else str(mechanism),
            "username": username,
            "password": password,
            "ca": ca,
            "registry_url": None if registry is None else registry.url,
            "registry_username": None if registry is None else registry.username,
            "registry_password": None if registry is None else registry.password,
        }
        return ConnectionOut.read(self.transport.change("POST", _PATH, body))

    def check(self, name: str) -> ConnectionCheckOut:
        """Have the server sign in to the cluster, and to the schema registry."""
        return ConnectionCheckOut.read(self.transport.change("POST", f"{_PATH}/{quoted(name)}/check"))

    def schema(self, name: str, number: int) -> LogSchemaOut:
        """The Avro schema of this id, which the server has from the connection's registry. NotFound."""
        return LogSchemaOut.read(self.transport.get(f"{_PATH}/{quoted(name)}/schemas/{number}"))

    def drop(self, name: str) -> None:
        """Drop a connection."""
        self.transport.change("DELETE", f"{_PATH}/{quoted(name)}")
