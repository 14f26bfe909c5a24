"""Sends messages about table events: at least once, and those of one table in the order of its commits.

A message that cannot be sent holds back the later ones of its table. After the last attempt, or when the receiver
refuses it, it is a dead letter: it stays in the history, and the later ones go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from catalog.errors import CatalogError, Unavailable
from catalog.notifications.message import CLAIM, Notification, NotificationId, build_message, next_event_attempt
from catalog.notifications.rule import Rule
from catalog.ports.notifications import WaitingEvent
from firn.protocol.notifications import NotificationState
from server.prometheus import NOTIFICATIONS
from server.service.notifications.event_messages import MOST_WAITING, EventMessages
from server.service.notifications.rules import NotificationRules

log = logging.getLogger(__name__)

SENDERS = 4
SENDING_SECONDS = 20.0
AT_ONCE = 50
"""Messages in one claim: two transactions for all of them. The time for sending them is shorter than the claim."""
MOST_TROUBLE = 3
"""Tables of one rule whose messages may wait for another attempt. With more, the receiver is in trouble, not a message:
the rule then tries no further messages, so an outage does not use up the attempts of all of them."""
SENT_KEPT = timedelta(days=1)
MOST_SENT = 2_000
MOST_DEAD_LETTERS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryStatus:
    """What one run did, as counts of messages."""

    written: int = 0
    sent: int = 0
    not_sent: int = 0


@dataclass
class _Outcome:
    """What has become of claimed messages."""

    sent: list[NotificationId] = field(default_factory=list)
    failed: list[tuple[Notification, NotificationState, datetime | None, str]] = field(default_factory=list)
    untried: list[NotificationId] = field(default_factory=list)


@dataclass(frozen=True)
class EventDelivery:
    """The leader runs it. Two servers at once are harmless: they claim what they send."""

    rules: NotificationRules
    messages: EventMessages
    kept: timedelta

    def run_once(self) -> DeliveryStatus:
        """Write the messages about new events, then send what is due. A silent rule waits, and loses nothing."""
        with self.rules.database.reading() as uow:
            now = uow.now()
            rules = [rule for rule in uow.notification_rules.list() if rule.reports_events]
        active = [rule for rule in rules if rule.silenced_until is None or rule.silenced_until <= now]
        if not active:
            return DeliveryStatus()
        written = self.messages.collect(active)
        deadline = time.monotonic() + SENDING_SECONDS
        with ThreadPoolExecutor(min(SENDERS, len(active)), "events") as threads:
            results = list(threads.map(lambda rule: self._send_all(rule, deadline), active))
        return DeliveryStatus(
            written=written, sent=sum(sent for sent, _ in results), not_sent=sum(not_sent for _, not_sent in results)
        )

    def _send_all(self, rule: Rule, deadline: float) -> tuple[int, int]:
        """Send what waits for a rule; returns the numbers of messages sent, and of failed attempts."""
        sent = not_sent = 0
        while time.monotonic() < deadline and not_sent < MOST_TROUBLE:
            claimed, now = self._claim(rule)
            if not claimed:
                break
            outcome = self._send(rule, claimed, now, deadline)
            self._settle(outcome)
            sent, not_sent = sent + len(outcome.sent), not_sent + len(outcome.failed)
        return sent, not_sent

    def _claim(self, rule: Rule) -> tuple[Sequence[Notification], datetime]:
        """Claim messages that may be sent now; none if another server sends messages of the rule."""
        with self.rules.database.reading() as uow:
            now = uow.now()
            chosen = choose_next(uow.event_messages.list_waiting(rule.id, limit=MOST_WAITING), now)
        if not chosen:
            return (), now
        with self.rules.database.writing() as uow:
            now = uow.now()
            count = uow.event_messages.claim(chosen, now, now + CLAIM)
            # With a part of them, a later message could overtake an earlier one. The claim lapses by itself.
            return (uow.event_messages.load(chosen) if count == len(chosen) else ()), now

    def _send(self, rule: Rule, claimed: Sequence[Notification], now: datetime, deadline: float) -> _Outcome:
        outcome, held = _Outcome(), set[str]()
        for notification in claimed:
            table = _table_of(notification)
            if table in held or len(held) >= MOST_TROUBLE or time.monotonic() >= deadline:
                held.add(table)  # a later one must not overtake it
                outcome.untried.append(notification.id)
                continue
            error = self._try(rule, notification)
            NOTIFICATIONS.labels(str(rule.channel), "sent" if error is None else "failed").inc()
            if error is None:
                outcome.sent.append(notification.id)
                continue
            text, is_final = error
            later = None if is_final else next_event_attempt(notification.attempts + 1, now)
            state = NotificationState.FAILED if later is None else NotificationState.WAITING
            outcome.failed.append((notification, state, later, text))
            if later is not None:
                held.add(table)
        return outcome

    def _try(self, rule: Rule, notification: Notification) -> tuple[str, bool] | None:
        """Send one message; returns why it could not be sent, and whether that is final."""
        try:
            self.rules.courier.send(self.rules.reveal_target(rule), build_message(notification, self.rules.console))
        except CatalogError as error:
            text = error.message if error.hint is None else f"{error.message}; {error.hint}"
            return text, not isinstance(error, Unavailable)
        except Exception as error:  # attempts have an end also then
            log.exception("a message of a rule could not be sent")
            return f"unexpected {type(error).__name__}; see the server's log", False
        return None

    def _settle(self, outcome: _Outcome) -> None:
        """Store what has become of claimed messages. If a server dies before that, they are sent again."""
        with self.rules.database.writing() as uow:
            now, messages = uow.now(), uow.event_messages
            messages.count_attempt([*outcome.sent, *(notification.id for notification, *_ in outcome.failed)])
            messages.settle_sent(outcome.sent, now)
            messages.unclaim(outcome.untried, now)
            for notification, state, later, error in outcome.failed:
                uow.notifications.settle(notification.id, state, now, next_attempt_at=later, error=error)

    def tidy(self) -> int:
        """Remove old messages; returns their number. Dead letters stay longer than what has arrived."""
        with self.rules.database.writing() as uow:
            now = uow.now()
            sent = uow.notifications.remove_events(NotificationState.SENT, now - SENT_KEPT, most=MOST_SENT)
            failed = uow.notifications.remove_events(NotificationState.FAILED, now - self.kept, most=MOST_DEAD_LETTERS)
        return sent + failed


def choose_next(waiting: Sequence[WaitingEvent], now: datetime) -> Sequence[NotificationId]:
    """The messages to send next: of each table, those before the first that is claimed or waits for an attempt.

    None if too many tables wait for an attempt.
    """
    chosen, held = list[NotificationId](), set[str]()
    for message in waiting:
        if message.next_attempt_at > now:
            held.add(message.table_id)
        elif message.table_id not in held:
            chosen.append(message.id)
    return chosen[:AT_ONCE] if len(held) < MOST_TROUBLE else ()


def _table_of(notification: Notification) -> str:
    return "" if notification.data is None else str(notification.data.get("table_id"))
