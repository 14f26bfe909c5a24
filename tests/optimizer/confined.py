"""The directories that a lease opens, with a server that notes what it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from firn.protocol.leases import Lease
from optimizer.client import ServerApi
from optimizer.file_access import FileAccess
from tests.optimizer.leases import a_lease


class Server:
    """It is asked about locations, and allows them all."""

    def __init__(self) -> None:
        self.checked: list[str] = []

    def check_locations(self, _: Lease, locations: Sequence[str]) -> None:
        self.checked += locations


def confined(*own: str) -> tuple[Server, FileAccess]:
    lease = a_lease(table="db.t", own_locations=[*own])
    server = Server()
    return server, FileAccess(cast("ServerApi", server), lease)
