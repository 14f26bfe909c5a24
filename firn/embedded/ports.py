"""TCP ports on this machine: finds free ones, and checks for listeners."""

from __future__ import annotations

import socket

from firn.embedded.errors import PortTaken

LOOPBACK = "127.0.0.1"
METASTORE_PORT = 9083
KAFKA_PORT = 9092


def free_port() -> int:
    """A port without a listener a moment ago."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def require_free(port: int, *, owner: str) -> None:
    """Raise PortTaken if a program listens on the port, on any address.

    Otherwise `owner` would fail to start or, worse, its clients would reach the other program.
    """
    with socket.socket() as probe:
        # Servers do the same, so that closing connections do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))  # the probe serves nothing; binding to every address is the test
        except PermissionError:
            raise PortTaken(f"{owner} may not listen on port {port}: ports below 1024 belong to root.") from None
        except OSError:
            raise make_port_taken_error(port, owner=owner) from None


def make_port_taken_error(port: int, *, owner: str) -> PortTaken:
    """The error for a port on which another program listens."""
    return PortTaken(
        f"{owner} cannot listen on port {port}: another program does. Stop it (`ss -ltnp` names it), "
        "or choose another port."
    )


def is_open(port: int) -> bool:
    """Whether a program on this machine accepts connections on the port."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True
