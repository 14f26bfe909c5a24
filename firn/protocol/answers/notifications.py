"""Answers about notifications. None has an address's password or a secret, but for the answer to a new rule."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from firn.protocol.base import Open, Out
from firn.protocol.notifications import Channel, NotificationState, ProblemKind


class NotificationOut(Out):
    """One message of a rule.

    `is_resolution` is true for a message that a problem has ended. `ended_at` is when the problem did. `data` is that
    of the CloudEvent of a table event.
    """

    id: str
    rule: str
    kind: Open[ProblemKind]
    catalog: str | None
    subject: str
    title: str
    message: str
    link: str
    is_resolution: bool
    since: datetime
    created_at: datetime
    ended_at: datetime | None
    state: Open[NotificationState]
    attempts: int
    next_attempt_at: datetime | None
    sent_at: datetime | None
    error: str | None
    data: dict[str, Any] | None


class SilenceOut(Out):
    """A silence of a subject."""

    subject: str
    until: datetime


class RuleOut(Out):
    """One rule, with its newest message.

    `address` has no passwords: the host of a Slack webhook, the address of a webhook without its query. `open` is the
    number of problems that it has reported and that go on. `waiting` and `failed` count its messages that are still to
    be sent, and those that the server has given up.
    """

    name: str
    kinds: list[Open[ProblemKind]]
    channel: Open[Channel]
    catalog: str | None
    address: str | None
    recipients: list[str]
    resolved: bool
    silenced_until: datetime | None
    silences: list[SilenceOut]
    created_at: datetime
    created_by: str | None
    open: int
    tables: list[str]
    waiting: int
    failed: int
    last: NotificationOut | None


class CreatedRuleOut(RuleOut):
    """A new rule; `secret` is that of a webhook if the server has created it. No later answer has it."""

    secret: str | None


class RetriedOut(Out):
    """The number of failed messages of a rule that the server sends again."""

    retried: int


class NotificationTestOut(Out):
    """The result of a test message: `error` is null if the receiver has accepted it."""

    accepted: bool
    error: str | None
