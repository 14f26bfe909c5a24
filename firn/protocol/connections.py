"""Connections to Kafka: how clients of a cluster sign in, and the request that creates a connection."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, SecretStr

from firn.protocol.base import Request


class Security(StrEnum):
    """How a client reaches the brokers."""

    PLAINTEXT = "plaintext"
    SSL = "ssl"
    SASL_PLAINTEXT = "sasl-plaintext"
    SASL_SSL = "sasl-ssl"

    @property
    def signs_in(self) -> bool:
        """Whether a client sends a user name and a password."""
        return self in (Security.SASL_PLAINTEXT, Security.SASL_SSL)

    @property
    def encrypts(self) -> bool:
        """Whether the connection is encrypted."""
        return self in (Security.SSL, Security.SASL_SSL)

    @property
    def protocol(self) -> str:
        """Kafka's own name for it, `security.protocol`."""
        return self.value.upper().replace("-", "_")


class Mechanism(StrEnum):
    """The SASL mechanism, by Kafka's name."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class ConnectionRequest(Request):
    """A new connection. The server keeps passwords encrypted, and never shows them."""

    name: str = Field(description="Name, which tables give as `firn.log.connection`.")
    kind: str = Field(default="kafka", pattern="^kafka$", description="`kafka`.")
    brokers: list[str] = Field(description="HOST:PORT of some brokers of the cluster.")
    security: Security = Field(default=Security.PLAINTEXT, description="How clients reach the brokers.")
    mechanism: Mechanism | None = Field(default=None, description="SASL mechanism.")
    username: str | None = Field(default=None, description="SASL user name.")
    password: SecretStr | None = Field(default=None, description="SASL password.")
    ca: str | None = Field(default=None, description="PEM certificates of the brokers' authorities.")
    registry_url: str | None = Field(default=None, description="Address of the schema registry, for Avro records.")
    registry_username: str | None = Field(default=None, description="User name at the schema registry.")
    registry_password: SecretStr | None = Field(default=None, description="Password at the schema registry.")
