"""The dependency of every route that checks the caller's privileges against the route's requirements."""

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
    """Get the parsed body of a management route, the same value that FastAPI parses.

    An exception as the value means that the route will refuse the body; only an authorized caller learns that.
    """
    if not await request.body():
        return None
    if not _is_json(request.headers.get("content-type")):
        return Invalid("malformed request: the Content-Type is not JSON", hint="send Content-Type: application/json")
    try:
        return cast("object", await request.json())
    except (ValueError, RecursionError) as error:
        return error


def _is_json(content_type: str | None) -> bool:
    """Whether a content type is JSON, by FastAPI's rule."""
    message = Message()
    message["content-type"] = content_type or ""
    kind = message.get_content_subtype()
    return message.get_content_maintype() == "application" and (kind == "json" or kind.endswith("+json"))


def create_gate(
    rules: Rules, prefix: str, read: Callable[[Request], Awaitable[object]] = model_body
) -> Callable[..., None]:
    """Create the gate of one application, mounted at `prefix`; `read` gets the body of its routes."""

    def enter(request: Request, body: object = Depends(read)) -> None:
        """Admit the request, or raise the error to answer with."""
        template = request.scope["route"].path
        rule = rules[request.method, template]
        if rule.public:
            return
        guarded = GuardedRequest(
            path=request.path_params,
            query=request.query_params,
            headers=request.headers,
            _body=body,
            services=cast("Services", request.app.state.services),
        )
        with (
            raise_unknown_if_unavailable() if rule.commits else nullcontext()
        ):  # an earlier attempt may have been applied: see unknown_commits
            _admit(request, rule, guarded, f"{prefix}{template}")

    return enter


def _admit(request: Request, rule: Rule, guarded: GuardedRequest, route: str) -> None:
    ended: CatalogError | None = getattr(request.state, "ended", None)
    if ended is not None:
        refuse(rule, guarded, ended)
    caller: Caller | None = getattr(request.state, "caller", None)
    if caller is None:
        raise Unauthenticated("access to this server needs a token")
    requirements: list[Requirement] = []
    refusal, verdict = _check_requirements(caller, rule.requirements(guarded), requirements)
    entry = replace(
        _build_entry(request, caller, requirements), route=route, verdict=verdict, changes=rule.record is Record.CHANGE
    )
    with suppress(
        CatalogError, RequestValidationError
    ):  # with a bad body the entry keeps the target from the requirements
        if rule.audit_target is not None:
            audit_target = rule.audit_target(guarded)
            entry = replace(entry, target=_to_loggable(audit_target.target), detail=_to_loggable(audit_target.detail))
    audit_log = guarded.access.audit_log
    if refusal is not None:
        audit_log.record_decision(replace(entry, status=403 if verdict is Verdict.FORBIDDEN else 404))
        refuse(rule, guarded, refusal)
    if rule.record is not Record.ROUTINE:
        request.state.when_answered = audit_log.record_decision(entry)


def _to_loggable(text: str) -> str:
    """Replace characters that a database cannot store, since the log must not miss an entry."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text[:LONGEST_TARGET])


def _check_requirements(
    caller: Caller, requirements: Iterable[Requirement], checked: list[Requirement]
) -> tuple[CatalogError | None, Verdict]:
    """Check requirements up to the first refusal, if any; adds each to `checked`."""
    for requirement in requirements:
        checked.append(requirement)
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


def _build_entry(request: Request, caller: Caller, requirements: list[Requirement]) -> AuditEntry:
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
