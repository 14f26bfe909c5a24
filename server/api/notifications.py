"""Notifications: rules, the history of their messages, and silences. Only administrators see and change them."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query

from catalog.notifications.message import Notification, NotificationId
from catalog.notifications.rule import Target
from firn.protocol.answers.notifications import (
    CreatedRuleOut,
    NotificationOut,
    NotificationTestOut,
    RetriedOut,
    RuleOut,
    SilenceOut,
)
from firn.protocol.imports import reveal_secret
from firn.protocol.notifications import NotificationState, RuleChange, RuleRequest, SilenceRequest
from server.api.deps import PageOut, PagingDep, ServicesDep
from server.api.errors import refusals
from server.service.notifications.rules import RuleDraft, RuleView

router = APIRouter(prefix="/notifications", tags=["notifications"])

RuleDep = Annotated[str, Path(description="rule")]


@router.get("", summary="List notifications")
def list_notifications(
    services: ServicesDep,
    paging: PagingDep,
    rule: Annotated[str | None, Query(description="only messages of this rule")] = None,
    state: Annotated[list[NotificationState], Query(description="only messages in these states")] = [],  # noqa: B006
) -> PageOut[NotificationOut]:
    """List the messages of rules, newest first."""
    page = services.notification_rules.list_history(rule, state, limit=paging.size, cursor=paging.cursor)
    return PageOut(items=[_build_notification(message) for message in page.items], next_cursor=page.next_cursor)


@router.post("/{notification_id}/retry", summary="Retry a notification", responses=refusals(404, 409))
def retry_notification(
    services: ServicesDep, notification_id: Annotated[UUID, Path(description="notification")]
) -> NotificationOut:
    """Send a failed message again, with the next run of the background task."""
    return _build_notification(services.notification_rules.retry(NotificationId(notification_id)))


@router.get("/rules", summary="List rules of notifications")
def list_rules(services: ServicesDep) -> list[RuleOut]:
    """List the rules by name, each with its newest message."""
    return [_build_rule(view) for view in services.notification_rules.list()]


@router.post("/rules", status_code=201, summary="Create a rule of notifications", responses=refusals(400, 404, 409))
def create_rule(services: ServicesDep, body: RuleRequest) -> CreatedRuleOut:
    """Create a rule. It reports problems that begin from now on. The answer alone has a created secret."""
    target = Target(
        channel=body.channel,
        url=reveal_secret(body.url),
        secret=reveal_secret(body.secret),
        recipients=tuple(body.recipients),
    )
    draft = RuleDraft(
        name=body.name,
        kinds=body.kinds,
        target=target,
        catalog=body.catalog,
        resolved=body.resolved,
        tables=body.tables,
    )
    view, secret = services.notification_rules.create(draft)
    return CreatedRuleOut(**dict(_build_rule(view)), secret=secret)


@router.get("/rules/{rule}", summary="Show a rule of notifications", responses=refusals(404))
def show_rule(services: ServicesDep, rule: RuleDep) -> RuleOut:
    """Show a rule, without its secret and without the secret parts of its address."""
    return _build_rule(services.notification_rules.get(rule))


@router.patch("/rules/{rule}", summary="Change a rule of notifications", responses=refusals(400, 404))
def change_rule(services: ServicesDep, rule: RuleDep, body: RuleChange) -> RuleOut:
    """Change what a rule reports. For another address or secret, drop it and create it again."""
    return _build_rule(services.notification_rules.change(rule, body.kinds, resolved=body.resolved))


@router.post("/rules/{rule}/test", summary="Test a rule of notifications", responses=refusals(404))
def test_rule(services: ServicesDep, rule: RuleDep) -> NotificationTestOut:
    """Send a test message now, and report what the receiver answered."""
    error = services.notification_rules.test(rule)
    return NotificationTestOut(accepted=error is None, error=error)


@router.post("/rules/{rule}/retry", summary="Retry the notifications of a rule", responses=refusals(404))
def retry_rule(services: ServicesDep, rule: RuleDep) -> RetriedOut:
    """Send all failed messages of a rule again: those that the server has given up, or the receiver has refused."""
    return RetriedOut(retried=services.notification_rules.retry_all(rule))


@router.post("/rules/{rule}/silence", summary="Silence a rule of notifications", responses=refusals(400, 404))
def silence_rule(services: ServicesDep, rule: RuleDep, body: SilenceRequest) -> RuleOut:
    """Keep the messages of a rule back, or those about one subject.

    When the silence ends, the rule sends those whose problems still go on.
    """
    return _build_rule(services.notification_rules.silence(rule, body.minutes, body.subject))


@router.delete("/rules/{rule}", status_code=204, summary="Drop a rule of notifications", responses=refusals(404))
def drop_rule(services: ServicesDep, rule: RuleDep) -> None:
    """Drop a rule. Its waiting messages are given up; its history stays for its time."""
    services.notification_rules.drop(rule)


def _build_rule(view: RuleView) -> RuleOut:
    rule = view.rule
    return RuleOut(
        name=rule.name,
        kinds=list(rule.kinds),
        channel=rule.channel,
        catalog=rule.catalog,
        address=rule.shown_address,
        recipients=list(rule.recipients),
        resolved=rule.resolved,
        silenced_until=rule.silenced_until,
        silences=[SilenceOut(subject=subject, until=until) for subject, until in sorted(rule.silences.items())],
        created_at=rule.created_at,
        created_by=rule.created_by,
        open=view.open,
        tables=list(rule.tables),
        waiting=view.waiting,
        failed=view.failed,
        last=None if view.last is None else _build_notification(view.last),
    )


def _build_notification(message: Notification) -> NotificationOut:
    return NotificationOut(
        id=str(message.id),
        rule=message.rule,
        kind=message.kind,
        catalog=message.catalog,
        subject=message.subject,
        title=message.title,
        message=message.message,
        link=message.link,
        is_resolution=message.is_resolution,
        since=message.since,
        created_at=message.created_at,
        ended_at=message.ended_at,
        state=message.state,
        attempts=message.attempts,
        next_attempt_at=message.next_attempt_at,
        sent_at=message.sent_at,
        error=message.error,
        data=None if message.data is None else dict(message.data),
    )
