"""Connections to Kafka: an administrator creates them, and tables name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from catalog.kafka.cluster import ClusterSummary
from catalog.kafka.connection import Connection, check_connection
from catalog.ports.kafka import KafkaClusters, PasswordSealer, SchemaRegistries
from catalog.ports.store import Database
from server.service.access.caller import caller


@dataclass(frozen=True)
class Connections:
    """Creates, lists, checks and drops connections to Kafka."""

    database: Database
    clusters: KafkaClusters
    registries: SchemaRegistries
    sealer: PasswordSealer

    def create(self, connection: Connection, password: str | None, registry_password: str | None = None) -> Connection:
        """Create a connection; the server asks no broker and no registry. Raises Invalid and AlreadyExists."""
        check_connection(connection, password, registry_password)
        sealed = None if password is None else self.sealer.seal_text(_label(connection.name), password)
        registry = connection.registry
        if registry is not None and registry_password is not None:
            label = _registry_label(connection.name)
            registry = replace(registry, sealed_password=self.sealer.seal_text(label, registry_password))
        with self.database.writing() as uow:
            by = caller.get().principal
            created = replace(
                connection, registry=registry, sealed_password=sealed, created_at=uow.now(), created_by=by
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

    def check(self, name: str) -> tuple[ClusterSummary, int | None]:
        """Sign in to the cluster and to the schema registry; the second result is the number of its subjects.

        Raises NotFound, Unavailable, or Forbidden with the brokers' reason.
        """
        connection = self.get(name)
        summary = self.clusters.summarize(connection, self.reveal_password(connection))
        if connection.registry is None:
            return summary, None
        password = self.reveal_registry_password(connection)
        return summary, self.registries.count_subjects(connection.registry, password, connection.ca)

    def drop(self, name: str) -> None:
        """Drop a connection; raises NotFound. Tables that name it then report that it is gone."""
        with self.database.writing() as uow:
            uow.connections.get(name)
            uow.connections.remove(name)

    def reveal_password(self, connection: Connection) -> str | None:
        """The password for the client of a cluster; Invalid if another key has encrypted it."""
        sealed = connection.sealed_password
        return None if sealed is None else self.sealer.unseal_text(_label(connection.name), sealed)

    def reveal_registry_password(self, connection: Connection) -> str | None:
        """The password for the schema registry; Invalid if another key has encrypted it."""
        sealed = None if connection.registry is None else connection.registry.sealed_password
        return None if sealed is None else self.sealer.unseal_text(_registry_label(connection.name), sealed)


def _registry_label(name: str) -> str:
    return f"schema registry of connection {name}"


def _label(name: str) -> str:
    return f"connection {name}"
