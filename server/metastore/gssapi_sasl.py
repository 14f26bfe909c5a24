"""SASL with Kerberos as metastores speak it (mechanism GSSAPI, RFC 4752), in Thrift's frames."""

from __future__ import annotations

import ipaddress
import socket
from enum import IntEnum
from typing import Any, Protocol

from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TSaslClientTransport, TTransportException

from server.kerberos.errors import KerberosError
from server.kerberos.gssapi import Name, SecurityContext
from server.kerberos.keytab import resolve_host

MAX_FRAME_BYTES = 2**31 - 1
"""An answer of a metastore is one frame, however long; without SASL it has no limit either."""
_MAX_RECEIVED_BYTES = 0xFFFFFF
"""The largest number that the protocol can tell."""
_REFUSED = (
    "the metastore does not accept the ticket for {principal}. Check that its keytab has the newest key of this "
    "principal, and that the clocks of both machines agree; its log has the reason"
)


class Protection(IntEnum):
    """What both sides do with the data after authentication: Hadoop's `hadoop.rpc.protection`."""

    AUTHENTICATION = 1
    INTEGRITY = 2
    PRIVACY = 4


class Context(Protocol):
    """The part of `server.kerberos.gssapi.SecurityContext` that SASL needs."""

    is_complete: bool

    def step(self, token: bytes) -> bytes: ...
    def wrap(self, data: bytes, *, encrypt: bool) -> bytes: ...
    def unwrap(self, data: bytes) -> tuple[bytes, bool]: ...
    def release(self) -> None: ...


class GssapiClient:
    """One side of a conversation, with the methods that Thrift's transport calls. KerberosError if it fails."""

    mechanism = "GSSAPI"

    def __init__(self, context: Context) -> None:
        self._context = context
        self.protection: Protection | None = None

    @property
    def complete(self) -> bool:
        """Whether both sides have authenticated and agreed on the protection."""
        return self.protection is not None

    def process(self, challenge: bytes | None = None) -> bytes:
        """Answer the metastore's message; None begins."""
        if self.complete:
            return b""
        if not self._context.is_complete:
            return self._context.step(challenge or b"")
        return self._choose_protection(challenge or b"")

    def wrap(self, data: bytes) -> bytes:
        """Protect data for the metastore."""
        if self.protection is Protection.AUTHENTICATION:
            return data
        return self._context.wrap(data, encrypt=self.protection is Protection.PRIVACY)

    def unwrap(self, data: bytes) -> bytes:
        """Check and decrypt the metastore's data."""
        if self.protection is Protection.AUTHENTICATION:
            return data
        plain, is_encrypted = self._context.unwrap(data)
        if self.protection is Protection.PRIVACY and not is_encrypted:
            raise KerberosError("the metastore promised to encrypt its answers and does not")
        return plain

    def dispose(self) -> None:
        """End the conversation."""
        self._context.release()

    def _choose_protection(self, challenge: bytes) -> bytes:
        """Take the strongest protection that the metastore offers."""
        offer, _ = self._context.unwrap(challenge)
        offered = [kind for kind in Protection if len(offer) == 4 and offer[0] & kind]
        if not offered:
            raise KerberosError("the metastore offers no protection that is known: check its hadoop.rpc.protection")
        chosen = max(offered)
        length = 0 if chosen is Protection.AUTHENTICATION else _MAX_RECEIVED_BYTES
        answer = self._context.wrap(bytes([chosen]) + length.to_bytes(3), encrypt=False)
        self.protection = chosen
        return answer


class GssapiTransport(TSaslClientTransport):  # type: ignore[misc] # thrift has no types
    """Thrift's transport with SASL, with this module's mechanism instead of that of a package that is not there."""

    def __init__(self, transport: TSocket, principal: str, client: Any) -> None:
        super().__init__(transport, principal, "", None, max_frame_size=MAX_FRAME_BYTES)
        self.sasl, self._principal = client, principal

    def open(self) -> None:
        """Connect and authenticate."""
        try:
            super().open()
        except BaseException as error:
            self.sasl.dispose()
            if isinstance(error, TTransportException) and "Bad SASL negotiation status" in str(error.message):
                raise KerberosError(_REFUSED.format(principal=self._principal)) from error
            raise


def make_transport(transport: TSocket, principal: str, host: str) -> GssapiTransport:
    """The transport to a metastore on `host`, whose principal may have `_HOST` in it."""
    name = resolve_host(principal, _find_host_name(host))
    # Without a realm krb5.conf tells in which realm the host is.
    service = Name(name) if "@" in name else Name(name.replace("/", "@"), is_service=True)
    return GssapiTransport(transport, name, GssapiClient(SecurityContext(service)))


def _find_host_name(host: str) -> str:
    """The host's name, which principals have, where the metastore's address has a number."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host
    return socket.getfqdn(host)
