"""The hook of Airflow's connections of the type `firn`: the address of a server, and a token as the password."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from firn.client import DEFAULT_CATALOG, Client, connect
from firn.errors import FirnError, Invalid, NotFound, Unauthenticated
from firn.integrations.backfills import BackfillFailed
from firn.integrations.drivers import AsyncServer
from firn.integrations.runs import RunFailed

DEFAULT_CONNECTION = "firn_default"
_PORT = 8630


class FirnHook(BaseHook):
    """The client of the server that a connection of Airflow names."""

    conn_name_attr = "firn_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = "firn"
    hook_name = "Firn"

    def __init__(self, firn_conn_id: str = DEFAULT_CONNECTION) -> None:
        super().__init__()
        self.firn_conn_id = firn_conn_id

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """The fields of a connection, as Airflow's form shows them."""
        return {
            "hidden_fields": ["login"],
            "relabeling": {"schema": "http or https", "password": "Access token"},
            "placeholders": {"host": "firn.example.com", "port": str(_PORT), "extra": '{"catalog": "lake"}'},
        }

    def get_conn(self) -> Client:
        """A client with the token that the connection has now."""
        connection = self.get_connection(self.firn_conn_id)
        catalog = connection.extra_dejson.get("catalog") or DEFAULT_CATALOG
        return connect(read_address(connection), token=connection.password or None, catalog=str(catalog))

    def test_connection(self) -> tuple[bool, str]:
        """Whether the server answers, and takes the token."""
        try:
            with self.get_conn() as client:
                catalogs = [catalog.name for catalog in client.catalogs.list()]
        except FirnError as error:
            return False, describe(error, self.firn_conn_id)
        return True, f"the server answers; its catalogs: {', '.join(catalogs)}"


def build_async_server(connection_id: str) -> AsyncServer:
    """The server of a connection, for the triggerer, which must not wait for answers."""

    async def load_address() -> tuple[str, str | None]:
        connection = await BaseHook.aget_connection(connection_id)
        return read_address(connection), connection.password or None

    return AsyncServer(load_address)


def read_address(connection: Connection) -> str:
    """The address of the server. Invalid if the connection has none."""
    host, schema = connection.host, connection.schema or "http"
    if not host:
        raise Invalid(f"the connection {connection.conn_id} has no host", hint="write the address of the server there")
    if "://" in host:
        return str(host).rstrip("/")
    if schema not in ("http", "https"):
        raise Invalid(f"the schema of the connection {connection.conn_id} is neither http nor https: {schema!r}")
    bracketed = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{schema}://{bracketed}:{connection.port or _PORT}"


def describe(error: FirnError, connection_id: str) -> str:
    """The error with its hint, which for a token names the connection."""
    hint = error.hint
    if isinstance(error, Unauthenticated):
        hint = f"put a token that is valid into the password of the connection {connection_id}"
    return error.message if hint is None else f"{error.message} ({hint})"


def is_permanent(error: FirnError) -> bool:
    """Whether another attempt of the task would fail as well."""
    return (
        error.is_permanent if isinstance(error, (RunFailed, BackfillFailed)) else isinstance(error, (Invalid, NotFound))
    )


def build_exception(message: str, *, permanent: bool) -> AirflowException:
    """The exception that fails a task, with or without further attempts."""
    return AirflowFailException(message) if permanent else AirflowException(message)
