"""The audit log: who asked for what, what was decided, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from catalog.access.privileges import PrincipalId


class Verdict(StrEnum):
    """What access control said."""

    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"
    HIDDEN = "hidden"  # answered as if it did not exist
    UNAUTHENTICATED = "unauthenticated"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One request.

    `status` is None while the request is worked on, and for ever when the server died over it: then nobody knows here
    how it ended, the table's history does.
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
    """What it was asked on: `lake.db.orders`, `role analysts`; several are separated by commas."""
    changes: bool
    """Whether the route changes anything when it succeeds."""
    request_id: str
    address: str
    detail: str = ""
    """What a change to access control gives or takes: `read, list on lake.sales`, `member ann`."""
    status: int | None = None
    id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries are wanted; None means all."""

    principal: str | None = None
    catalog: str | None = None
    target: str | None = None
    """A thing by its whole name, or what lies in it."""
    verdict: Verdict | None = None
    changes: bool | None = None
    notable: bool = False
    """Only what changes something or was refused: reads that were allowed are most of all entries."""
    since: datetime | None = None
    until: datetime | None = None
