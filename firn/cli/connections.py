"""`firn connection create|list|check|drop`: connections to Kafka."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from firn.cli.context import CliContext, command
from firn.cli.show import moment
from firn.connections import SchemaRegistry
from firn.protocol.answers.connections import ConnectionOut
from firn.protocol.connections import Mechanism, Security

app = typer.Typer(help="Manage connections to Kafka. They need an administrator.", no_args_is_help=True)
create = typer.Typer(help="Create a connection.", no_args_is_help=True)
app.add_typer(create, name="create")

_VARIABLE = "FIRN_KAFKA_PASSWORD"
_REGISTRY_VARIABLE = "FIRN_REGISTRY_PASSWORD"
Name = Annotated[str, typer.Argument(help="Name of the connection.")]


@command(app, "list")
def list_connections(ctx: CliContext) -> None:
    """List connections, without passwords."""
    show, connections = ctx.show, ctx.client.connections.list()
    rows = [_describe(connection) for connection in connections]
    titles = ("connection", "brokers", "security", "user", "created", "by")
    show.emit(
        [connection.json_value() for connection in connections],
        lambda: show.table(titles, rows, none="no connections"),
    )


@command(create, "kafka")
def create_kafka(  # noqa: PLR0913, PLR0917 -- its options are what people type
    ctx: CliContext,
    name: Name,
    brokers: Annotated[str, typer.Option(help="HOST:PORT,HOST:PORT of some brokers.")],
    security: Annotated[Security, typer.Option(help="How clients reach the brokers.")] = Security.PLAINTEXT,
    mechanism: Annotated[Mechanism | None, typer.Option(help="SASL mechanism.")] = None,
    username: Annotated[
        str | None,
        typer.Option(help="SASL user name. The command takes the password from $FIRN_KAFKA_PASSWORD, or asks."),
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option(help="File with PEM certificates of the brokers' authorities.", exists=True)
    ] = None,
    registry: Annotated[str | None, typer.Option(help="Address of the schema registry, for Avro records.")] = None,
    registry_username: Annotated[
        str | None,
        typer.Option(help="User name there. The command takes the password from $FIRN_REGISTRY_PASSWORD, or asks."),
    ] = None,
) -> None:
    """Create a connection to a Kafka cluster. Tables name it as firn.log.connection."""
    if registry is None and registry_username is not None:
        raise typer.BadParameter("--registry-username needs --registry")
    password = _ask("Password", _VARIABLE, username)
    connection = ctx.client.connections.create(
        name,
        [broker.strip() for broker in brokers.split(",")],
        security=security,
        mechanism=mechanism,
        username=username,
        password=password,
        ca=None if ca_file is None else ca_file.read_text("utf-8"),
        registry=None if registry is None else _read_registry(registry, registry_username),
    )
    ctx.show.emit(connection.json_value(), lambda: ctx.show.line(f"created connection {connection.name}"))


def _read_registry(url: str, username: str | None) -> SchemaRegistry:
    return SchemaRegistry(url, username, _ask("Password of the schema registry", _REGISTRY_VARIABLE, username))


def _ask(prompt: str, variable: str, username: str | None) -> str | None:
    """The password of a user. It is no option: other users of the machine see the arguments of programs."""
    if username is None:
        return None
    return os.environ.get(variable) or str(typer.prompt(prompt, hide_input=True))


@command(app, "check")
def check_connection(ctx: CliContext, name: Name) -> None:
    """Have the server sign in to cluster and schema registry, and count brokers, topics and subjects."""
    check = ctx.client.connections.check(name)
    subjects = "" if check.subjects is None else f", {check.subjects} subjects of schemas"
    text = f"connection {name}: {check.brokers} brokers, {check.topics} topics{subjects}"
    ctx.show.emit(check.json_value(), lambda: ctx.show.line(text))


@command(app, "drop")
def drop_connection(ctx: CliContext, name: Name) -> None:
    """Drop a connection. Logs of tables that name it cannot be read any more."""
    ctx.client.connections.drop(name)
    ctx.show.emit({"dropped": name}, lambda: ctx.show.line(f"dropped connection {name}"))


def _describe(connection: ConnectionOut) -> tuple[str | None, ...]:
    brokers = ", ".join(connection.brokers)
    created = moment(connection.created_at)
    return connection.name, brokers, str(connection.security), connection.username, created, connection.created_by
