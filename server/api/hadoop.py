"""HDFS clusters under the catalogs: their state, and a check of every hop."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter

from catalog.ports.hadoop import Hop, Severity
from firn.protocol.base import Out
from server.api.deps import ServicesDep

router = APIRouter(prefix="/hadoop", tags=["health"])


class ClusterOut(Out):
    """A file system that holds the warehouses of `catalogs`.

    `error` says why it does not answer.  With `has_ticket` the server has a Kerberos principal, and `user` is it;
    `ticket_expires_at` is null if there is no valid ticket.
    """

    address: str
    name_nodes: list[str]
    catalogs: list[str]
    user: str
    error: str | None
    checked_at: datetime
    has_ticket: bool
    ticket_expires_at: datetime | None
    ticket_error: str | None


class FindingOut(Out):
    """The result of one check, and what to do about it."""

    hop: Hop
    severity: Severity
    location: str
    message: str
    hint: str | None


@router.get("", summary="Show the HDFS clusters under the catalogs")
def list_clusters(services: ServicesDep) -> list[ClusterOut]:
    """Show which clusters answer. The state may be half a minute old. Empty if no warehouse is on HDFS."""
    return [ClusterOut.model_validate(status) for status in services.hadoop.show()]


@router.post("/check", summary="Check the HDFS clusters")
def check_clusters(services: ServicesDep) -> list[FindingOut]:
    """Check every hop to every warehouse on HDFS.  The server writes small files there and deletes them."""
    return [FindingOut.model_validate(finding) for finding in services.hadoop.check()]
