"""Connections to Kafka."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from catalog.errors import Invalid
from catalog.kafka.connection import Connection
from catalog.kafka.schema_registry import SchemaRegistry
from firn.protocol.answers.connections import ConnectionCheckOut, ConnectionOut
from firn.protocol.answers.logs import LogSchemaOut
from firn.protocol.avro.wire_format import HIGHEST_SCHEMA_ID
from firn.protocol.connections import ConnectionRequest
from firn.protocol.imports import reveal_secret
from server.api.deps import ServicesDep
from server.api.errors import refusals

router = APIRouter(prefix="/connections", tags=["connections"])

NameDep = Annotated[str, Path(description="connection")]


def build_connection_out(connection: Connection) -> ConnectionOut:
    """Build the answer about a connection."""
    registry = connection.registry
    return ConnectionOut(
        name=connection.name,
        kind="kafka",
        brokers=list(connection.brokers),
        security=connection.security,
        mechanism=connection.mechanism,
        username=connection.username,
        has_password=connection.sealed_password is not None,
        ca=connection.ca,
        registry_url=None if registry is None else registry.url,
        registry_username=None if registry is None else registry.username,
        has_registry_password=registry is not None and registry.sealed_password is not None,
        created_at=connection.created_at,
        created_by=connection.created_by,
    )


@router.get("", summary="List connections")
def list_connections(services: ServicesDep) -> list[ConnectionOut]:
    """List the connections by name."""
    return [build_connection_out(connection) for connection in services.connections.list()]


@router.post("", status_code=201, summary="Create a connection", responses=refusals(400, 409))
def create_connection(services: ServicesDep, body: ConnectionRequest) -> ConnectionOut:
    """Create a connection to a Kafka cluster, which tables name as `firn.log.connection`. No broker is asked yet."""
    connection = Connection(
        name=body.name,
        brokers=tuple(body.brokers),
        security=body.security,
        mechanism=body.mechanism,
        username=body.username,
        ca=None if body.ca is None else body.ca.strip(),
        registry=_read_registry(body),
    )
    passwords = reveal_secret(body.password), reveal_secret(body.registry_password)
    return build_connection_out(services.connections.create(connection, *passwords))


def _read_registry(body: ConnectionRequest) -> SchemaRegistry | None:
    if body.registry_url is not None:
        return SchemaRegistry(url=body.registry_url, username=body.registry_username)
    if body.registry_username is not None:
        raise Invalid("a user of a schema registry needs the registry's address")
    return None


@router.get("/{connection}", summary="Show a connection", responses=refusals(404))
def show_connection(services: ServicesDep, connection: NameDep) -> ConnectionOut:
    """Show a connection, without its password."""
    return build_connection_out(services.connections.get(connection))


@router.post("/{connection}/check", summary="Check a connection", responses=refusals(403, 404, 503))
def check_connection(services: ServicesDep, connection: NameDep) -> ConnectionCheckOut:
    """Sign in to cluster and schema registry, and count the brokers, topics and subjects that the user may see."""
    summary, subjects = services.connections.check(connection)
    return ConnectionCheckOut(
        cluster=summary.cluster_id, brokers=summary.brokers, topics=summary.topics, subjects=subjects
    )


@router.get(
    "/{connection}/schemas/{number}", summary="Show a schema of a registry", responses=refusals(400, 403, 404, 503)
)
def show_connection_schema(
    services: ServicesDep,
    connection: NameDep,
    number: Annotated[int, Path(ge=0, le=HIGHEST_SCHEMA_ID, description="id of the schema")],
) -> LogSchemaOut:
    """Show an Avro schema of the connection's registry, with the schemas that it refers to."""
    schema = services.log_schemas.load_of_connection(connection, number)
    return LogSchemaOut(id=schema.id, texts=[*schema.texts])


@router.delete("/{connection}", status_code=204, summary="Drop a connection", responses=refusals(404))
def drop_connection(services: ServicesDep, connection: NameDep) -> None:
    """Drop a connection. Logs of tables that name it cannot be read until there is one of this name again."""
    services.connections.drop(connection)
