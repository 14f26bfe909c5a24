"""The Avro schemas of a log: the server asks the registry, so that nobody else needs its password (decision 131)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from catalog.errors import Invalid, NotFound
from catalog.kafka.connection import Connection
from catalog.kafka.schema_registry import RegisteredSchema, SchemaRegistry
from catalog.names import CatalogName, TableName
from catalog.policy.log_settings import LogSettings
from catalog.ports.kafka import SchemaRegistries
from server.service.streams.connections import Connections
from server.service.tables.keyed_tables import KeyedTables


@dataclass(frozen=True)
class LogSchemas:
    """Loads schemas from the registries of connections."""

    keyed: KeyedTables
    connections: Connections

    @property
    def _registries(self) -> SchemaRegistries:
        return self.connections.registries

    def load(self, catalog: CatalogName, table: TableName, number: int) -> RegisteredSchema:
        """The schema of an id in the records of a table's log.

        Raises NotFound for a table without a log and for an id that the registry does not have as an Avro schema;
        Invalid if the log or its connection has no registry; Unavailable and Forbidden as the registry does.
        """
        settings = LogSettings.from_properties(self.keyed.pin(catalog, table).base.get("properties", {}))
        if settings is None:
            raise NotFound(f"{table} has no log")
        if settings.connection is None:
            raise Invalid(f"the log of {table} has no connection, and so no schema registry")
        return self._load(self.connections.get(settings.connection), number)

    def load_of_connection(self, name: str, number: int) -> RegisteredSchema:
        """The schema of an id in the registry of a connection. Raises as `load` does; NotFound for no connection."""
        return self._load(self.connections.get(name), number)

    def load_all(self, connection: Connection, numbers: Iterable[int]) -> dict[int, list[str]]:
        """The texts of these schemas; those that the registry does not have are missing. Raises as `load` does."""
        _require_registry(connection)
        texts = {}
        for number in sorted({*numbers}):
            try:
                texts[number] = [*self._load(connection, number).texts]
            except NotFound:
                continue
        return texts

    def _load(self, connection: Connection, number: int) -> RegisteredSchema:
        registry = _require_registry(connection)
        password = self.connections.reveal_registry_password(connection)
        return self._registries.load_schema(registry, password, number, connection.ca)


def _require_registry(connection: Connection) -> SchemaRegistry:
    if connection.registry is None:
        raise Invalid(
            f"connection {connection.name!r} has no schema registry",
            hint="drop the connection, and create it again with --registry",
        )
    return connection.registry
