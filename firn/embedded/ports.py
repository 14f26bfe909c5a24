"""TCP ports on this machine: which are free, who answers."""

from __future__ import annotations

import socket

from firn.embedded.errors import PortTaken

LOOPBACK = "127.0.0.1"
METASTORE_PORT = 9083


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def require_free(port: int, *, what: str) -> None:
    """Raise PortTaken if something listens on the port, on any address: `what` would then fail to start, or worse,
    its clients would reach somebody else.
    """
    with socket.socket() as probe:
        # As servers do: connections that are only fading away do not hold the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))  # nothing is served here: binding everywhere is how to ask
        except PermissionError:
            raise PortTaken(f"{what} may not listen on port {port}: ports below 1024 belong to root.") from None
        except OSError:
            raise taken(port, what=what) from None


def taken(port: int, *, what: str) -> PortTaken:
    """The error for a port that somebody else listens on."""
    return PortTaken(
        f"{what} cannot listen on port {port}: another program does. Stop that one (`ss -ltnp` names it), "
        "or choose another port."
    )


def is_open(port: int) -> bool:
    """Whether something on this machine takes connections there."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True
