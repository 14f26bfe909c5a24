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
from server.guard.requirements import GuardedRequest, Record, Requirement, Rule
from server.guard.route_rules import Rules
from server.guard.unknown_commits import refuse
from server.logs import request_id
from server.service.commit.commit_path import raise_unknown_if_unavailable
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
        asked = GuardedRequest(
            path=request.path_params,
            query=request.query_params,
            headers=request.headers,
            _body=body,
            services=cast("Services", request.app.state.services),
        )
        with (
            raise_unknown_if_unavailable() if rule.commits else nullcontext()
        ):  # its first try may have been applied: see doubt
            _admit(request, rule, asked, f"{prefix}{template}")

    return enter


def _admit(request: Request, rule: Rule, asked: GuardedRequest, route: str) -> None:
    ended: CatalogError | None = getattr(request.state, "ended", None)
    if ended is not None:
        refuse(rule, asked, ended)
    caller: Caller | None = getattr(request.state, "caller", None)
    if caller is None:
        raise Unauthenticated("access to this server needs a token")
    requirements: list[Requirement] = []
    refusal, verdict = _judged(caller, rule.requirements(asked), requirements)
    entry = replace(
        _entry(request, caller, requirements), route=route, verdict=verdict, changes=rule.record is Record.CHANGE
    )
    with suppress(
        CatalogError, RequestValidationError
    ):  # a body that tells nothing is no way around the log: what was demanded is told
        if rule.audit_target is not None:
            audit_target = rule.audit_target(asked)
            entry = replace(entry, target=_loggable(audit_target.target), detail=_loggable(audit_target.detail))
    audit_log = asked.access.audit_log
    if refusal is not None:
        audit_log.record_decision(replace(entry, status=403 if verdict is Verdict.FORBIDDEN else 404))
        refuse(rule, asked, refusal)
    if rule.record is not Record.ROUTINE:
        request.state.when_answered = audit_log.record_decision(entry)


def _loggable(text: str) -> str:
    """A body may hold what a database cannot: an entry that cannot be written would be missing."""
    return "".join(one if one.isprintable() else "\ufffd" for one in text[:LONGEST_TARGET])


def _judged(
    caller: Caller, requirements: Iterable[Requirement], seen: list[Requirement]
) -> tuple[CatalogError | None, Verdict]:
    """The first refusal, if any; what was looked at goes into `seen`."""
    for requirement in requirements:
        seen.append(requirement)
        decision = decide(caller.rights, requirement.privilege, requirement.on)
        if decision is Decision.HIDDEN:
            return requirement.missing, Verdict.HIDDEN
        if decision is Decision.FORBIDDEN:
            refusal = Forbidden(
                f"{caller.principal.name} may not {requirement.privilege} {requirement.on}",
                hint=f"ask for the privilege `{requirement.privilege}` there",
            )
            return refusal, Verdict.FORBIDDEN
    return None, Verdict.ALLOWED


def _entry(request: Request, caller: Caller, requirements: list[Requirement]) -> AuditEntry:
    named = list(
        dict.fromkeys(str(requirement.on) for requirement in requirements if requirement.privilege is not None)
    )
    shown = named or [str(requirement.on) for requirement in requirements[-1:]]
    catalog = next((requirement.on.catalog for requirement in requirements if requirement.on.catalog is not None), None)
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
