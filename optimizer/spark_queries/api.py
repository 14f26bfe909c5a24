"""The server's routes for queries, as an optimizer uses them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from firn.protocol.query_leases import (
    LeasedQueryTable,
    QueryHeartbeat,
    QueryLease,
    QueryLeaseRequest,
    QueryLocationsRequest,
    QueryPartRequest,
    QueryReport,
)
from optimizer.client import WAIT_SECONDS, ServerApi, check_lease

PART_SECONDS = 120.0


@dataclass(frozen=True)
class QueryApi:
    """Methods raise LeaseLost for an ended lease, Refused, NotWelcome, and httpx.HTTPError without an answer."""

    server: ServerApi

    def take(self, optimizer_id: str, *, wait_seconds: float = WAIT_SECONDS) -> QueryLease | None:
        """The next query, waited for a while; None when none waits. Raises as `ServerApi.take_lease`."""
        request = QueryLeaseRequest(optimizer_id=optimizer_id, wait_seconds=wait_seconds)
        answer = self.server.ask_for_work("/api/v1/query-leases", optimizer_id, request)
        return None if answer is None else QueryLease.model_validate(answer)

    def beat(self, lease: QueryLease, heartbeat: QueryHeartbeat) -> None:
        """Renew the lease."""
        check_lease(self.server.http.put(_path(lease), json=heartbeat.model_dump(mode="json")))

    def check_locations(self, lease: QueryLease, view: str, locations: Sequence[str]) -> None:
        """Ask whether a table may name files; Refused for the first one that it may not."""
        request = QueryLocationsRequest(view=view, locations=list(locations))
        check_lease(self.server.http.post(f"{_path(lease)}/locations", json=request.model_dump(mode="json")))

    def put_part(self, lease: QueryLease, part: QueryPartRequest) -> None:
        """Send a part of the result. It may be sent again."""
        body = part.model_dump(mode="json")
        check_lease(self.server.http.put(f"{_path(lease)}/parts", json=body, timeout=PART_SECONDS))

    def report(self, lease: QueryLease, report: QueryReport) -> None:
        """Report the end of the query."""
        check_lease(self.server.http.post(f"{_path(lease)}/report", json=report.model_dump(mode="json")))


@dataclass(frozen=True)
class TableLocations:
    """Asks about the files of one table of a query, for `optimizer.file_access`."""

    api: QueryApi
    lease: QueryLease
    table: LeasedQueryTable

    def check_locations(self, lease: Any, locations: Sequence[str]) -> None:  # noqa: ARG002 -- see LocationJudge
        """Raise Refused for the first location that the table may not name."""
        self.api.check_locations(self.lease, self.table.view, locations)


def _path(lease: QueryLease) -> str:
    return f"/api/v1/query-leases/{quote(lease.lease, safe='')}"
