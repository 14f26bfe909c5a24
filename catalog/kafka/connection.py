"""Connections to Kafka: an administrator names brokers and credentials once, and tables name the connection.

The password is no part of the connection. The database has it encrypted, and no answer of the server has it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from catalog.errors import Invalid
from catalog.kafka.schema_registry import SchemaRegistry, check_registry, is_https
from catalog.locations.addresses import check_address
from firn.protocol.connections import Mechanism, Security

LONGEST_NAME = 128
MOST_BROKERS = 50
LONGEST_SECRET = 4_096
LONGEST_USERNAME = 255
LONGEST_CERTIFICATES = 48 * 1024
HIGHEST_PORT = 65_535
_SHOWN = 80
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_BROKER = re.compile(
    r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\]):(?P<port>[0-9]{1,5})"
)
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A named connection to a Kafka cluster, without passwords."""

    name: str
    brokers: tuple[str, ...]
    """`HOST:PORT` of brokers through which clients find all others."""
    security: Security = Security.PLAINTEXT
    mechanism: Mechanism | None = None
    username: str | None = None
    ca: str | None = None
    """PEM certificates of the authorities that sign the brokers' certificates; None for those of the system."""
    registry: SchemaRegistry | None = None
    """The registry of the schemas of Avro records. It is trusted by `ca` or by the authorities of the system."""
    created_at: datetime | None = None
    """None for a connection that a table's own `firn.log.brokers` describes."""
    created_by: str | None = None
    sealed_password: str | None = field(default=None, repr=False)
    """Encrypted with a key that the database does not have."""


def check_connection(connection: Connection, password: str | None, registry_password: str | None = None) -> Connection:
    """The connection itself; Invalid for a malformed value, or for values that do not go together."""
    check_connection_name(connection.name)
    check_brokers(connection.brokers)
    signs_in = connection.security.signs_in
    if signs_in and (connection.mechanism is None or connection.username is None or password is None):
        raise Invalid(f"security {connection.security} needs a mechanism, a user name and a password")
    if not signs_in and (connection.mechanism, connection.username, password) != (None, None, None):
        raise Invalid(
            f"security {connection.security} has no mechanism, user name or password",
            hint=f"with them, security is {Security.SASL_SSL} or {Security.SASL_PLAINTEXT}",
        )
    if connection.username is not None:
        _check_text("the user name", connection.username, LONGEST_USERNAME)
    if password is not None:
        _check_text("the password", password, LONGEST_SECRET)
    if connection.registry is not None:
        check_registry(connection.registry, registry_password)
    elif registry_password is not None:
        raise Invalid("a password for a schema registry needs its address")
    if connection.ca is not None:
        _check_certificates(connection)
    return connection


def check_connection_name(name: str) -> None:
    """Raise Invalid unless the name has 1 to 128 letters, digits, dots, hyphens and underscores."""
    if len(name) > LONGEST_NAME or _NAME.fullmatch(name) is None:
        raise Invalid(
            f"{name[:_SHOWN]!r} is not a name for a connection",
            hint=f"a name has 1 to {LONGEST_NAME} letters, digits, dots, hyphens and underscores",
        )


def parse_brokers(text: str) -> tuple[str, ...]:
    """The brokers of a list `HOST:PORT,HOST:PORT`; Invalid for another form."""
    brokers = tuple(part.strip() for part in text.split(","))
    check_brokers(brokers)
    return brokers


def check_brokers(brokers: Sequence[str]) -> None:
    """Raise Invalid unless these are 1 to 50 addresses `HOST:PORT`, none of them link-local."""
    if not 0 < len(brokers) <= MOST_BROKERS:
        raise Invalid(f"a connection names 1 to {MOST_BROKERS} brokers, not {len(brokers)}")
    for broker in brokers:
        match = _BROKER.fullmatch(broker)
        if match is None or not 0 < int(match["port"]) <= HIGHEST_PORT:
            raise Invalid(f"{broker[:_SHOWN]!r} is no address of a broker", hint="write HOST:PORT,HOST:PORT")
        check_address(match["host"].strip("[]"))


def _check_text(setting: str, text: str, longest: int) -> None:
    if not 0 < len(text) <= longest or not text.isprintable():
        raise Invalid(f"{setting} of a connection has 1 to {longest} printable characters")


def _check_certificates(connection: Connection) -> None:
    ca = connection.ca or ""
    if not connection.security.encrypts and not is_https(connection.registry):
        raise Invalid(f"security {connection.security} uses no certificates")
    rest = _CERTIFICATE.sub("", ca)
    if len(ca) > LONGEST_CERTIFICATES or rest == ca or rest.strip():
        raise Invalid(
            f"the certificates of connection {connection.name!r} are no PEM text",
            hint="give the text of the file: -----BEGIN CERTIFICATE----- and so on, without keys and comments",
        )
