"""Addresses where nobody answers, and clients of them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from server.metastore import HiveMetastore, MetastoreSettings


@pytest.fixture
def silent() -> Iterator[str]:
    """Accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"thrift://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def nobody() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"thrift://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def connect() -> Iterator[Callable[..., HiveMetastore]]:
    clients: list[HiveMetastore] = []

    def connecting(*uris: str, connections: int = 2, patience: float = 30) -> HiveMetastore:
        settings = MetastoreSettings(
            uris=uris, connections=connections, connect_timeout_seconds=patience, read_timeout_seconds=patience
        )
        clients.append(HiveMetastore(settings))
        return clients[-1]

    yield connecting
    for client in clients:
        client.close()


Connect = Callable[..., HiveMetastore]
