"""The audit log: requests with their principal, verdict and outcome."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from catalog.access.privileges import PrincipalId


class Verdict(StrEnum):
    """The verdict of access control."""

    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"
    HIDDEN = "hidden"  # answered as if the object did not exist
    UNAUTHENTICATED = "unauthenticated"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One request.

    `status` is None while the request runs. It stays None if the server died; then only the table's history tells the
    outcome.
    """

    at: datetime
    verdict: Verdict
    principal: str | None
    principal_id: PrincipalId | None
    token_id: str | None
    method: str
    route: str
    """The route's template, such as `/iceberg/v1/{catalog}/namespaces/{namespace}/tables/{table}`."""
    catalog: str | None
    target: str
    """The objects of the request: `lake.db.orders`, `role analysts`; several are separated by commas."""
    changes: bool
    """Whether the route changes anything if it succeeds."""
    request_id: str
    address: str
    detail: str = ""
    """The change to access control: `read, list on lake.sales`, `member ann`."""
    status: int | None = None
    id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """A filter of entries; None means all."""

    principal: str | None = None
    catalog: str | None = None
    target: str | None = None
    """An object by its full name; objects inside it match too."""
    verdict: Verdict | None = None
    changes: bool | None = None
    notable: bool = False
    """Only changes and refusals: allowed reads are most of all entries."""
    since: datetime | None = None
    until: datetime | None = None
