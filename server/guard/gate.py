"""The dependency that every route has: it compares what the caller may do with what the route needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from email.message import Message
from typing import cast

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError

from catalog.access.audit_log import AuditEntry, Verdict
from catalog.access.privileges import Caller, Decision, decide
from catalog.errors import CatalogError, Forbidden, Invalid, Unauthenticated
from server.guard.demands import Asked, Demand, Record, Rule
from server.guard.doubt import refuse
from server.guard.rules import Rules
from server.logs import request_id
from server.service.commit import looking
from server.service.services import Services

LONGEST_TARGET = 2_000


async def model_body(request: Request) -> object:
    """What a route of the management API reads its model from; FastAPI has parsed it, and this is the same value.

    An exception says that the route will refuse the body, which only a caller is told who may ask.
    """
    if not await request.body():
        return None
    if not _is_json(request.headers.get("content-type")):
        return Invalid(
            "malformed request: the body is not declared as JSON", hint="send Content-Type: application/json"
        )
    try:
        return cast("object", await request.json())
    except (ValueError, RecursionError) as error:
        return error


def _is_json(content_type: str | None) -> bool:
    """As FastAPI decides it."""
    message = Message()
    message["content-type"] = content_type or ""
    kind = message.get_content_subtype()
    return message.get_content_maintype() == "application" and (kind == "json" or kind.endswith("+json"))


def gate(rules: Rules, prefix: str, read: Callable[[Request], Awaitable[object]] = model_body) -> Callable[..., None]:
    """The gate of one application, mounted at `prefix`, whose routes get what `read` gives as their body."""

    def enter(request: Request, body: object = Depends(read)) -> None:
        """Let the request through, or raise what it is answered with."""
        template = request.scope["route"].path
        rule = rules[request.method, template]
        if rule.public:
            return
        asked = Asked(
            path=request.path_params,
            query=request.query_params,
            headers=request.headers,
            _body=body,
            services=cast("Services", request.app.state.services),
        )
        with looking() if rule.commits else nullcontext():  # its first try may have been applied: see doubt
            _admit(request, rule, asked, f"{prefix}{template}")

    return enter


def _admit(request: Request, rule: Rule, asked: Asked, route: str) -> None:
    ended: CatalogError | None = getattr(request.state, "ended", None)
    if ended is not None:
        refuse(rule, asked, ended)
    caller: Caller | None = getattr(request.state, "caller", None)
    if caller is None:
        raise Unauthenticated("access to this server needs a token")
    demands: list[Demand] = []
    refusal, verdict = _judged(caller, rule.demands(asked), demands)
    entry = replace(
        _entry(request, caller, demands), route=route, verdict=verdict, changes=rule.record is Record.CHANGE
    )
    with suppress(
        CatalogError, RequestValidationError
    ):  # a body that tells nothing is no way around the log: what was demanded is told
        if rule.about is not None:
            about = rule.about(asked)
            entry = replace(entry, target=_loggable(about.target), detail=_loggable(about.detail))
    trail = asked.access.trail
    if refusal is not None:
        trail.decided(replace(entry, status=403 if verdict is Verdict.FORBIDDEN else 404))
        refuse(rule, asked, refusal)
    if rule.record is not Record.ROUTINE:
        request.state.when_answered = trail.decided(entry)


def _loggable(text: str) -> str:
    """A body may hold what a database cannot: an entry that cannot be written would be missing."""
    return "".join(one if one.isprintable() else "\ufffd" for one in text[:LONGEST_TARGET])


def _judged(caller: Caller, demands: Iterable[Demand], seen: list[Demand]) -> tuple[CatalogError | None, Verdict]:
    """The first refusal, if any; what was looked at goes into `seen`."""
    for demand in demands:
        seen.append(demand)
        decision = decide(caller.rights, demand.privilege, demand.on)
        if decision is Decision.HIDDEN:
            return demand.missing, Verdict.HIDDEN
        if decision is Decision.FORBIDDEN:
            refusal = Forbidden(
                f"{caller.principal.name} may not {demand.privilege} {demand.on}",
                hint=f"ask for the privilege `{demand.privilege}` there",
            )
            return refusal, Verdict.FORBIDDEN
    return None, Verdict.ALLOWED


def _entry(request: Request, caller: Caller, demands: list[Demand]) -> AuditEntry:
    named = list(dict.fromkeys(str(demand.on) for demand in demands if demand.privilege is not None))
    shown = named or [str(demand.on) for demand in demands[-1:]]
    catalog = next((demand.on.catalog for demand in demands if demand.on.catalog is not None), None)
    return AuditEntry(
        at=datetime.now(UTC),
        verdict=Verdict.ALLOWED,
        principal=caller.principal.name,
        principal_id=caller.principal.id,
        token_id=caller.token_id,
        method=request.method,
        route="",
        catalog=catalog,
        target=", ".join(shown)[:LONGEST_TARGET],
        changes=False,
        request_id=request_id.get() or "",
        address="" if request.client is None else request.client.host,
    )
