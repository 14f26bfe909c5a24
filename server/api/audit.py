"""The audit log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query

from catalog.access.audit_log import AuditFilter, Verdict
from server.api.deps import Out, PageOut, PagingDep, ServicesDep

router = APIRouter(prefix="/audit", tags=["access"])


class AuditOut(Out):
    """One request. A change without a status was not seen to end: the table's history knows whether it happened."""

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
        str | None, Query(description="CATALOG.NAMESPACE.TABLE or what it lies in; or `role NAME`")
    ] = None,
    verdict: Annotated[Verdict | None, Query()] = None,
    changes: Annotated[bool | None, Query(description="only what changes something, or only what does not")] = None,
    since: Annotated[datetime | None, Query()] = None,
    until: Annotated[datetime | None, Query()] = None,
    *,
    notable: Annotated[bool, Query(description="only what changes something or was refused")] = False,
) -> PageOut[AuditOut]:
    """Reads appear some seconds after they were answered, changes and refusals at once."""
    wanted = AuditFilter(
        principal=principal,
        catalog=catalog,
        target=target,
        verdict=verdict,
        changes=changes,
        notable=notable,
        since=_utc(since),
        until=_utc(until),
    )
    with services.database.reading() as uow:
        found = uow.audit.list(wanted, limit=page.size, cursor=page.cursor)
    return PageOut(items=[AuditOut.model_validate(one) for one in found.items], next_cursor=found.next_cursor)


def _utc(moment: datetime | None) -> datetime | None:
    """A moment without a zone is taken for UTC."""
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment
