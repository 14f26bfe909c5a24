"""Connections to Kafka in the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, select

from catalog.errors import AlreadyExists, NotFound
from catalog.kafka.connection import Connection
from catalog.kafka.schema_registry import SchemaRegistry
from firn.protocol.connections import Mechanism, Security
from server.store.session import ReadSession
from server.store.stream_rows import ConnectionRow
from server.store.upsert import insert_unless_taken

_SAME = ("name", "username", "ca", "created_at", "created_by", "sealed_password")


@dataclass(frozen=True)
class SqlConnections:
    """See catalog.ports.kafka.Connections."""

    session: ReadSession

    def add(self, connection: Connection) -> None:
        """Add a connection; AlreadyExists when the name exists."""
        values = {name: getattr(connection, name) for name in _SAME}
        values |= {
            "brokers": list(connection.brokers),
            "security": str(connection.security),
            "mechanism": None if connection.mechanism is None else str(connection.mechanism),
        }
        if (registry := connection.registry) is not None:
            values |= {
                "registry_url": registry.url,
                "registry_username": registry.username,
                "sealed_registry_password": registry.sealed_password,
            }
        if not insert_unless_taken(self.session, ConnectionRow, values):
            raise AlreadyExists(f"connection {connection.name} already exists")

    def get(self, name: str) -> Connection:
        """Get a connection; NotFound."""
        row = self.session.get(ConnectionRow, name)
        if row is None:
            raise NotFound(
                f"connection {name!r} does not exist", hint="see the connections with `firn connection list`"
            )
        return _to_connection(row)

    def list(self) -> Sequence[Connection]:
        """List the connections by name."""
        return [_to_connection(row) for row in self.session.scalars(select(ConnectionRow).order_by(ConnectionRow.name))]

    def remove(self, name: str) -> None:
        """Remove a connection."""
        self.session.execute(delete(ConnectionRow).where(ConnectionRow.name == name))


def _to_connection(row: ConnectionRow) -> Connection:
    return Connection(
        **{name: getattr(row, name) for name in _SAME},
        brokers=tuple(row.brokers),
        security=Security(row.security),
        mechanism=None if row.mechanism is None else Mechanism(row.mechanism),
        registry=_read_registry(row),
    )


def _read_registry(row: ConnectionRow) -> SchemaRegistry | None:
    if row.registry_url is None:
        return None
    return SchemaRegistry(
        url=row.registry_url, username=row.registry_username, sealed_password=row.sealed_registry_password
    )
