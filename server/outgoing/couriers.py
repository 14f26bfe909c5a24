"""Delivers messages of notifications: signed webhooks, Slack, and mails."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from catalog.errors import Invalid, Unavailable
from catalog.notifications.message import CONTENT_TYPE, Message, encode_event, encode_slack, sign
from catalog.notifications.rule import Target, decode_secret, describe_url
from firn.protocol.notifications import Channel
from server.outgoing.mail import MailServer
from server.outgoing.post import post

SECONDS = 10.0
"""How long one request may take."""
_REFUSALS = frozenset({400, 410, 413, 415, 422})
"""Answers about the message itself, or an address that is gone for ever."""
_HINT = "check the address of the rule"


@dataclass(frozen=True)
class Couriers:
    """See catalog.ports.notifications.Courier."""

    source: str
    """Names this server in CloudEvents."""
    mail: MailServer | None
    seconds: float = SECONDS
    clock: Callable[[], float] = time.time

    @property
    def can_mail(self) -> bool:
        """Whether there is a mail server."""
        return self.mail is not None

    def send(self, target: Target, message: Message) -> None:
        """Deliver one message."""
        if target.channel is Channel.MAIL:
            self._send_mail(target, message)
        elif target.channel is Channel.SLACK:
            self._post(target, encode_slack(message), {"Content-Type": "application/json"})
        else:
            self._post(target, *self._sign(target, message))

    def _send_mail(self, target: Target, message: Message) -> None:
        if self.mail is None:
            raise Unavailable("this server has no mail server", hint="set mail.host and mail.sender")
        self.mail.send(target.recipients, message)

    def _sign(self, target: Target, message: Message) -> tuple[bytes, dict[str, str]]:
        body, timestamp = encode_event(message, self.source), int(self.clock())
        signature = sign(decode_secret(target.secret or ""), message.id, timestamp, body)
        return body, {
            "Content-Type": CONTENT_TYPE,
            "webhook-id": message.id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature,
        }

    def _post(self, target: Target, body: bytes, headers: dict[str, str]) -> None:
        url = target.url or ""
        shown = describe_url(target.channel, url)
        status = post(url, body, headers, shown=shown, seconds=self.seconds, hint=_HINT)
        if status in _REFUSALS:
            raise Invalid(f"{shown} refuses the message: {status}")
        if not 200 <= status < 300:
            follows = ", and the server follows no redirects" if 300 <= status < 400 else ""
            raise Unavailable(f"{shown} answers {status}{follows}", hint=_HINT)
