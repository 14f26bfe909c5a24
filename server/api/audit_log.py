"""The audit log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query

from catalog.access.audit_log import AuditFilter, Verdict
from firn.protocol.base import Out
from server.api.deps import PageOut, PagingDep, ServicesDep

router = APIRouter(prefix="/audit", tags=["access"])


class AuditOut(Out):
    """One request. A change without a status has no recorded end: the table's history tells whether it happened."""

    id: int
    at: datetime
    verdict: Verdict
    principal: str | None
    token_id: str | None
    method: str
    route: str
    catalog: str | None
    target: str
    detail: str
    changes: bool
    status: int | None
    request_id: str
    address: str


@router.get("", summary="List requests, newest first")
def list_audit(  # noqa: PLR0913, PLR0917 (each is a parameter of the query)
    services: ServicesDep,
    page: PagingDep,
    principal: Annotated[str | None, Query(description="a user's or service's name")] = None,
    catalog: Annotated[str | None, Query()] = None,
    target: Annotated[
        str | None, Query(description="CATALOG.NAMESPACE.TABLE, or a catalog or namespace; or `role NAME`")
    ] = None,
    verdict: Annotated[Verdict | None, Query()] = None,
    changes: Annotated[
        bool | None, Query(description="only requests that change something, or only those that do not")
    ] = None,
    since: Annotated[datetime | None, Query()] = None,
    until: Annotated[datetime | None, Query()] = None,
    *,
    notable: Annotated[bool, Query(description="only requests that change something or were refused")] = False,
) -> PageOut[AuditOut]:
    """List requests. Changes and refusals appear at once, reads some seconds after their answer."""
    audit_filter = AuditFilter(
        principal=principal,
        catalog=catalog,
        target=target,
        verdict=verdict,
        changes=changes,
        notable=notable,
        since=_in_utc(since),
        until=_in_utc(until),
    )
    with services.database.reading() as uow:
        entries = uow.audit.list(audit_filter, limit=page.size, cursor=page.cursor)
    return PageOut(items=[AuditOut.model_validate(entry) for entry in entries.items], next_cursor=entries.next_cursor)


def _in_utc(time: datetime | None) -> datetime | None:
    """Read a time without a zone as UTC."""
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time
