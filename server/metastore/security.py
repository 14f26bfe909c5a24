"""How a connection to a metastore is secured, and as whom it speaks: TLS, SASL, or nothing but a name."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from thrift.transport.TSocket import TSocket
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TTransport import TBufferedTransport, TSaslClientTransport


class Authentication(StrEnum):
    """What a metastore asks of those who connect."""

    NONE = "none"
    PLAIN = "plain"
    """A user and a password, for LDAP and the like (metastores from version 3.1 on)."""
    KERBEROS = "kerberos"
    """The ticket of the process that the server runs in."""


@dataclass(frozen=True)
class MetastoreSecurity:
    """The same for all metastores of a server; safe to share between threads."""

    tls: bool = False
    ca_file: Path | None = None
    """Whom to believe; None is whom the system believes."""
    authentication: Authentication = Authentication.NONE
    user: str | None = None
    """Without authentication the metastore takes the name as it is said (`hive.metastore.execute.setugi`)."""
    password: str | None = field(default=None, repr=False)
    service: str = "hive"
    """The first part of the metastore's principal."""

    def socket(self, host: str, port: int) -> TSocket:
        """Not connected yet; OSError when the file of authorities cannot be read."""
        return TSSLSocket(host, port, ssl_context=self._context) if self.tls else TSocket(host, port)

    def transport(self, socket: TSocket, host: str) -> Any:
        """What speaks over the socket; opening it connects and says who we are."""
        match self.authentication:
            case Authentication.NONE:
                return TBufferedTransport(socket)
            case Authentication.PLAIN:
                secret = {"username": self.user, "password": self.password}
                return TSaslClientTransport(socket, host, self.service, "PLAIN", **secret)
            case Authentication.KERBEROS:
                return TSaslClientTransport(socket, host, self.service, "GSSAPI")

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca_file)
