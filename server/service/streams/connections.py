"""Connections to Kafka: an administrator creates them, and tables name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from catalog.kafka.cluster import ClusterSummary
from catalog.kafka.connection import Connection, check_connection
from catalog.ports.kafka import KafkaClusters, PasswordSealer
from catalog.ports.store import Database
from server.service.access.caller import caller


@dataclass(frozen=True)
class Connections:
    """Creates, lists, checks and drops connections to Kafka."""

    database: Database
    clusters: KafkaClusters
    sealer: PasswordSealer

    def create(self, connection: Connection, password: str | None) -> Connection:
        """Create a connection; the server asks no broker. Raises Invalid and AlreadyExists."""
        check_connection(connection, password)
        sealed = None if password is None else self.sealer.seal_text(_label(connection.name), password)
        with self.database.writing() as uow:
            created = replace(
                connection, sealed_password=sealed, created_at=uow.now(), created_by=caller.get().principal
            )
            uow.connections.add(created)
        return created

    def get(self, name: str) -> Connection:
        """One connection; raises NotFound."""
        with self.database.reading() as uow:
            return uow.connections.get(name)

    def list(self) -> Sequence[Connection]:
        """All connections by name."""
        with self.database.reading() as uow:
            return uow.connections.list()

    def check(self, name: str) -> ClusterSummary:
        """Sign in to the cluster; raises NotFound, Unavailable, or Forbidden with the brokers' reason."""
        connection = self.get(name)
        return self.clusters.summarize(connection, self.reveal_password(connection))

    def drop(self, name: str) -> None:
        """Drop a connection; raises NotFound. Tables that name it then report that it is gone."""
        with self.database.writing() as uow:
            uow.connections.get(name)
            uow.connections.remove(name)

    def reveal_password(self, connection: Connection) -> str | None:
        """The password for the client of a cluster; Invalid if another key has encrypted it."""
        sealed = connection.sealed_password
        return None if sealed is None else self.sealer.unseal_text(_label(connection.name), sealed)


def _label(name: str) -> str:
    return f"connection {name}"
