"""`firn connection create|list|check|drop`: connections to Kafka."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from firn.cli.context import CliContext, command
from firn.cli.show import moment
from firn.protocol.answers.connections import ConnectionOut
from firn.protocol.connections import Mechanism, Security

app = typer.Typer(help="Manage connections to Kafka. They need an administrator.", no_args_is_help=True)
create = typer.Typer(help="Create a connection.", no_args_is_help=True)
app.add_typer(create, name="create")

_VARIABLE = "FIRN_KAFKA_PASSWORD"
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
def create_kafka(
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
) -> None:
    """Create a connection to a Kafka cluster. Tables name it as firn.log.connection."""
    password = None
    if username is not None:  # no option: other users of the machine see the arguments of programs
        password = os.environ.get(_VARIABLE) or typer.prompt("Password", hide_input=True)
    connection = ctx.client.connections.create(
        name,
        [broker.strip() for broker in brokers.split(",")],
        security=security,
        mechanism=mechanism,
        username=username,
        password=password,
        ca=None if ca_file is None else ca_file.read_text("utf-8"),
    )
    ctx.show.emit(connection.json_value(), lambda: ctx.show.line(f"created connection {connection.name}"))


@command(app, "check")
def check_connection(ctx: CliContext, name: Name) -> None:
    """Have the server sign in to the cluster, and count brokers and topics."""
    check = ctx.client.connections.check(name)
    text = f"connection {name}: {check.brokers} brokers, {check.topics} topics"
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
