"""Encryption and authentication of metastore connections: TLS, SASL, or only a user name."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from thrift.transport.TSocket import TSocket
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TTransport import TBufferedTransport, TSaslClientTransport

from server.metastore.gssapi_sasl import MAX_FRAME_BYTES, make_transport


class Tickets(Protocol):
    """The source of tickets for the metastore."""

    def renew(self) -> object:
        """Have a valid ticket; KerberosError says why there is none."""


class Authentication(StrEnum):
    """The authentication that a metastore requires."""

    NONE = "none"
    PLAIN = "plain"
    """A user and a password, for example for LDAP (metastores from version 3.1 on)."""
    KERBEROS = "kerberos"
    """The Kerberos ticket of the server's principal, or without one that of the server's process."""


@dataclass(frozen=True)
class MetastoreSecurity:
    """The security settings for all metastores of a server; safe to share between threads."""

    tls: bool = False
    ca_file: Path | None = None
    """The file of trusted authorities; None for those of the system."""
    authentication: Authentication = Authentication.NONE
    user: str | None = None
    """Without authentication the metastore trusts this name (`hive.metastore.execute.setugi`)."""
    password: str | None = field(default=None, repr=False)
    principal: str = "hive/_HOST"
    """The metastore's; `_HOST` stands for the host of each one's address."""
    tickets: Tickets | None = None

    def socket(self, host: str, port: int) -> TSocket:
        """Create a socket without connecting it; OSError when the file of authorities cannot be read."""
        return TSSLSocket(host, port, ssl_context=self._context) if self.tls else TSocket(host, port)

    def transport(self, socket: TSocket, host: str) -> Any:
        """Create the transport over the socket; opening it connects and authenticates.

        KerberosError if there is no ticket.
        """
        match self.authentication:
            case Authentication.NONE:
                return TBufferedTransport(socket)
            case Authentication.PLAIN:
                secret = {"username": self.user, "password": self.password}
                return TSaslClientTransport(socket, host, "hive", "PLAIN", max_frame_size=MAX_FRAME_BYTES, **secret)
            case Authentication.KERBEROS:
                if self.tickets is not None:
                    self.tickets.renew()
                return make_transport(socket, self.principal, host)

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca_file)
