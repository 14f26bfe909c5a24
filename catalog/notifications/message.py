"""Messages as each channel sends them: CloudEvents for webhooks, text for Slack, and mails."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NewType
from uuid import UUID

from catalog.notifications.problem import clean_line
from firn.protocol.notifications import NotificationState, ProblemKind

NotificationId = NewType("NotificationId", UUID)

MOST_ATTEMPTS = 12
FIRST_PAUSE = timedelta(seconds=15)
LONGEST_PAUSE = timedelta(hours=1)
MOST_EVENT_ATTEMPTS = 60
LONGEST_EVENT_PAUSE = timedelta(minutes=5)
CLAIM = timedelta(minutes=2)
"""A server that has died while it sent leaves its message to the next one after this time."""
CONTENT_TYPE = "application/cloudevents+json"
TEST = "test"
_OPENED, _RESOLVED, _TESTED = (f"firn.notification.{name}" for name in ("opened", "resolved", TEST))
_LONGEST_SUBJECT = 200
_LONGEST_SLACK = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A message of a rule, and how far it is. The first message about a problem has the problem's end, too."""

    id: NotificationId
    rule: str
    kind: ProblemKind
    catalog: str | None
    subject: str
    title: str
    message: str
    link: str
    since: datetime
    created_at: datetime
    is_resolution: bool = False
    ended_at: datetime | None = None
    state: NotificationState = NotificationState.WAITING
    attempts: int = 0
    next_attempt_at: datetime | None = None
    sent_at: datetime | None = None
    error: str | None = None
    data: Mapping[str, Any] | None = None
    """The data of the CloudEvent of a table event; None for a problem."""
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What a channel sends."""

    id: str
    """The same in each attempt, so that receivers can drop repeats."""
    type: str
    """The type of the CloudEvent."""
    at: datetime
    title: str
    text: str
    url: str
    """Of the console's page, or its path if the setting `notifications.console` is empty."""
    subject: str
    data: Mapping[str, Any]
    extensions: Mapping[str, str] = field(default_factory=dict)
    """Further attributes of the CloudEvent, as its documented extensions define them."""


def build_message(notification: Notification, console: str | None) -> Message:
    """The message of a notification."""
    if notification.data is not None:
        return _build_event_message(notification, notification.data, console)
    data = {
        "rule": notification.rule,
        "kind": str(notification.kind),
        "catalog": notification.catalog,
        "subject": notification.subject,
        "title": notification.title,
        "message": notification.message,
        "since": notification.since.isoformat(),
        "link": (console or "").rstrip("/") + notification.link,
    }
    return Message(
        id=str(notification.id),
        type=_RESOLVED if notification.is_resolution else _OPENED,
        at=notification.created_at,
        title=notification.title,
        text=notification.message,
        url=data["link"] or "",
        subject=notification.subject,
        data=data,
    )


def _build_event_message(notification: Notification, data: Mapping[str, Any], console: str | None) -> Message:
    link = (console or "").rstrip("/") + notification.link
    sequence = data.get("event")
    return Message(
        id=str(notification.id),
        type=f"dev.firn.{str(notification.kind).replace('_', '.')}",
        at=notification.since,
        title=notification.title,
        text=notification.message,
        url=link,
        subject=notification.subject,
        data={"rule": notification.rule, **data, "link": link},
        extensions={
            "partitionkey": str(data.get("table_id")),
            **({} if sequence is None else {"sequence": f"{sequence:020d}"}),
        },
    )


def build_test_message(rule: str, id: UUID, now: datetime, console: str | None) -> Message:
    """A message that a user sends to try a rule."""
    link = (console or "").rstrip("/") + "/notifications"
    title, text = f"Test of the rule {rule}", "Somebody has sent this to try the rule. Nothing has happened."
    data = {"rule": rule, "kind": TEST, "title": title, "message": text, "link": link}
    return Message(id=str(id), type=_TESTED, at=now, title=title, text=text, url=link, subject=rule, data=data)


def encode_event(message: Message, source: str) -> bytes:
    """The message as a CloudEvent in JSON (specification 1.0, structured mode)."""
    event = {
        "specversion": "1.0",
        "id": message.id,
        "source": source,
        "type": message.type,
        "subject": message.subject,
        "time": message.at.isoformat(),
        "datacontenttype": "application/json",
        **message.extensions,
        "data": dict(message.data),
    }
    return json.dumps(event).encode()


def sign(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """The signature of a webhook as Standard Webhooks defines it: HMAC-SHA256 over id, time and body."""
    content = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode("ascii")


def encode_slack(message: Message) -> bytes:
    """The message for an incoming webhook of Slack. Nothing in it can mention people or channels."""
    lines = [f"*{_escape(message.title)}*", _escape(message.text)]
    is_address = message.url.startswith(("https://", "http://"))
    lines.append(f"<{_escape(message.url)}|Open in Firn>" if is_address else "")
    text = "\n".join(line for line in lines if line)
    return json.dumps({"text": text, "link_names": False, "unfurl_links": False, "unfurl_media": False}).encode()


def mail_subject(message: Message) -> str:
    """The subject of the mail: one line, whatever a table's name or an error has in it."""
    return clean_line(f"Firn: {message.title}", _LONGEST_SUBJECT)


def mail_text(message: Message) -> str:
    """The text of the mail."""
    return f"{message.title}\n\n{message.text}\n\n{message.url}\n"


def next_attempt(attempts: int, now: datetime) -> datetime | None:
    """When to try again after so many attempts; None to give up."""
    if attempts >= MOST_ATTEMPTS:
        return None
    doubled: int = 2 ** max(0, attempts - 1)
    return now + min(LONGEST_PAUSE, FIRST_PAUSE * doubled)


def next_event_attempt(attempts: int, now: datetime) -> datetime | None:
    """The same for a table event, which holds back the later ones of its table: more attempts, and shorter pauses."""
    if attempts >= MOST_EVENT_ATTEMPTS:
        return None
    doubled: int = 2 ** min(max(0, attempts - 1), MOST_ATTEMPTS)
    return now + min(LONGEST_EVENT_PAUSE, FIRST_PAUSE * doubled)


def _escape(text: str) -> str:
    """Slack's own escapes; without asterisks and the like, which would be formats, a name stays as it is."""
    cut = text if len(text) <= _LONGEST_SLACK else text[: _LONGEST_SLACK - 1] + "…"
    return cut.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
