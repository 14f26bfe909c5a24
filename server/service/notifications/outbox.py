"""Writes messages about problems that have begun or ended, and sends them.

A problem and its message are one row, which a transaction writes before anything is sent. So a server that dies at any
point loses no message, and sends each at least once: the id of a message is the same in each attempt.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import uuid4

from catalog.errors import CatalogError, NotFound, Unavailable
from catalog.notifications.message import CLAIM, Notification, NotificationId, build_message, next_attempt
from catalog.notifications.problem import LONGEST_TITLE, OpenProblem, Problem, clean_line, compare_problems
from catalog.notifications.rule import Rule, RuleId
from catalog.ports.store import UnitOfWork
from firn.protocol.notifications import NotificationState, ProblemKind
from server.prometheus import NOTIFICATIONS
from server.service.notifications.problem_ends import explain_end
from server.service.notifications.problem_sources import ProblemSources
from server.service.notifications.rules import NotificationRules

log = logging.getLogger(__name__)

MOST_MESSAGES = 20
"""Messages that a rule sends in `PERIOD`. Further ones are kept back, and sent later if their problems go on."""
PERIOD = timedelta(minutes=10)
MOST_KEPT = 10_000
"""Messages in the history."""
DUE_AT_ONCE = 200
SENDERS = 4
SENDING_SECONDS = 20.0
_KEPT_BACK = f"kept back: the rule has sent {MOST_MESSAGES} messages in {PERIOD.seconds // 60} minutes"
_FRESH_AGAIN = "It is as fresh as its target again."


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxStatus:
    """What one run did, as counts of problems and messages."""

    began: int = 0
    ended: int = 0
    sent: int = 0
    not_sent: int = 0


@dataclass(frozen=True)
class Outbox:
    """The leader runs it. Two servers at once are harmless: they write each problem once, and claim what they send."""

    rules: NotificationRules
    sources: ProblemSources
    kept: timedelta

    def run_once(self) -> OutboxStatus:
        """Look for problems, then send what is due."""
        began, ended = self.collect()
        sent, not_sent = self.send_due()
        return OutboxStatus(began=began, ended=ended, sent=sent, not_sent=not_sent)

    def collect(self) -> tuple[int, int]:
        """Write the messages of all rules; returns the numbers of problems that have begun, and that have ended."""
        database = self.rules.database
        with database.reading() as uow:
            rules = [rule for rule in uow.notification_rules.list() if not rule.reports_events]
        if not rules:
            return 0, 0
        findings = self.sources.find({kind for rule in rules for kind in rule.kinds})
        began = ended = 0
        for rule in rules:
            with database.reading() as uow:
                known = uow.notifications.list_open(rule.id)
                silenced = _list_releasable(uow, rule)
            changes = compare_problems(rule, findings.problems, known, findings.complete)
            if not (changes.began or changes.ended or silenced):
                continue
            with database.writing() as uow:
                current = _find_current(uow, rule)
                if current is None:
                    continue
                ended += sum(self._end(uow, current, problem) for problem in changes.ended)
                began += self._begin(uow, current, changes.began)
                _release(uow, current, silenced)
        return began, ended

    def _begin(self, uow: UnitOfWork, rule: Rule, problems: Sequence[Problem]) -> int:
        now, left, began = uow.now(), _count_left(uow, rule), 0
        for problem in problems:
            first = _build_first(rule, problem, now)
            if rule.is_silent(problem.subject, now):
                first = _silenced(first)
            elif left <= 0:
                first = _silenced(first, _KEPT_BACK)
            is_new = uow.notifications.open(rule, problem, first)
            began += is_new
            left -= is_new and first.state is NotificationState.WAITING
        return began

    def _end(self, uow: UnitOfWork, rule: Rule, problem: OpenProblem) -> bool:
        first, now = uow.notifications.get_by_number(problem.number), uow.now()
        if first is None or not uow.notifications.close(problem.number, now):
            return False
        was_told = first.state in (NotificationState.SENT, NotificationState.WAITING)
        text = self._explain_end(uow, problem) if rule.resolved and was_told and problem.kind in rule.kinds else None
        if text is not None:
            message = _build_resolution(rule, first, text, now)
            is_silent = rule.is_silent(first.subject, now)
            uow.notifications.add_resolution(rule, problem, _silenced(message) if is_silent else message)
        return True

    def _explain_end(self, uow: UnitOfWork, problem: OpenProblem) -> str | None:
        if problem.kind is ProblemKind.NOT_FRESH:
            return _FRESH_AGAIN if problem.key in self.sources.measured else None
        return explain_end(uow, problem)

    def send_due(self) -> tuple[int, int]:
        """Send the messages that are due; returns the numbers of those sent, and of those not sent."""
        with self.rules.database.reading() as uow:
            due = uow.notifications.list_due(uow.now(), limit=DUE_AT_ONCE)
            rules = {rule.id: rule for rule in uow.notification_rules.list()} if due else {}
        if not due:
            return 0, 0
        by_rule = defaultdict[RuleId, list[Notification]](list)
        for rule_id, notification in due:
            by_rule[rule_id].append(notification)
        deadline = time.monotonic() + SENDING_SECONDS
        with ThreadPoolExecutor(min(SENDERS, len(by_rule)), "notify") as threads:
            work = [threads.submit(self._send_all, rules.get(of), some, deadline) for of, some in by_rule.items()]
            results = [future.result() for future in work]
        return sum(sent for sent, _ in results), sum(not_sent for _, not_sent in results)

    def _send_all(self, rule: Rule | None, notifications: Sequence[Notification], deadline: float) -> tuple[int, int]:
        """Send messages of one rule, until one cannot be sent: the others wait for the next run."""
        sent = 0
        for notification in notifications:
            if time.monotonic() >= deadline:
                break
            if rule is None:
                self._settle(notification, NotificationState.FAILED, error="the rule was dropped")
                continue
            if not self._send(rule, notification):
                return sent, 1
            sent += 1
        return sent, 0

    def _send(self, rule: Rule, notification: Notification) -> bool:
        """Claim, send, store the result. A server that dies in between leaves the message to a later run."""
        with self.rules.database.writing() as uow:
            now = uow.now()
            if not uow.notifications.claim(notification, now + CLAIM):
                return True  # another server sends it
        attempts = notification.attempts + 1
        try:
            self.rules.courier.send(self.rules.reveal_target(rule), build_message(notification, self.rules.console))
        except Unavailable as error:
            self._put_off(notification, attempts, now, _describe(error))
        except CatalogError as error:
            self._settle(notification, NotificationState.FAILED, error=_describe(error))
        except Exception as error:  # attempts have an end also then
            log.exception("a message of a rule could not be sent")
            self._put_off(notification, attempts, now, f"unexpected {type(error).__name__}; see the server's log")
        else:
            NOTIFICATIONS.labels(str(rule.channel), "sent").inc()
            self._settle(notification, NotificationState.SENT)
            return True
        NOTIFICATIONS.labels(str(rule.channel), "failed").inc()
        log.warning("rule %s could not send a message", rule.name)
        return False

    def _put_off(self, notification: Notification, attempts: int, now: datetime, error: str) -> None:
        """Try again later, or give up after the last attempt."""
        later = next_attempt(attempts, now)
        state = NotificationState.FAILED if later is None else NotificationState.WAITING
        self._settle(notification, state, error=error, next_attempt_at=later)

    def _settle(
        self,
        notification: Notification,
        state: NotificationState,
        *,
        error: str | None = None,
        next_attempt_at: datetime | None = None,
    ) -> None:
        with self.rules.database.writing() as uow:
            uow.notifications.settle(notification.id, state, uow.now(), next_attempt_at=next_attempt_at, error=error)

    def tidy(self) -> int:
        """Remove old messages; returns their number."""
        with self.rules.database.writing() as uow:
            return uow.notifications.remove_before(uow.now() - self.kept, most=MOST_KEPT)


def _find_current(uow: UnitOfWork, rule: Rule) -> Rule | None:
    """The rule as it is now; None if somebody has dropped it since the look."""
    try:
        current = uow.notification_rules.lock(rule.name)
    except NotFound:
        return None
    return current if current.id == rule.id else None


def _list_releasable(uow: UnitOfWork, rule: Rule) -> Sequence[Notification]:
    """Silenced messages whose silence is over, as many as the rule may send now."""
    now, left = uow.now(), _count_left(uow, rule)
    silenced = uow.notifications.list_silenced(rule.id) if left > 0 else ()
    return [message for message in silenced if not rule.is_silent(message.subject, now)][:left]


def _release(uow: UnitOfWork, rule: Rule, messages: Sequence[Notification]) -> None:
    now = uow.now()
    for message in messages:
        if not rule.is_silent(message.subject, now):
            uow.notifications.release(rule.id, message.number, now)


def _count_left(uow: UnitOfWork, rule: Rule) -> int:
    """How many messages the rule may send now."""
    return max(0, MOST_MESSAGES - uow.notifications.count_recent(rule.id, uow.now() - PERIOD))


def _build_first(rule: Rule, problem: Problem, now: datetime) -> Notification:
    return Notification(
        id=NotificationId(uuid4()),
        rule=rule.name,
        kind=problem.kind,
        catalog=problem.catalog,
        subject=problem.subject,
        title=problem.title,
        message=problem.message,
        link=problem.link,
        since=problem.since,
        created_at=now,
        next_attempt_at=now,
    )


def _build_resolution(rule: Rule, first: Notification, text: str, now: datetime) -> Notification:
    return replace(
        first,
        id=NotificationId(uuid4()),
        rule=rule.name,
        title=clean_line(f"Resolved: {first.title}", LONGEST_TITLE),
        message=text,
        created_at=now,
        is_resolution=True,
        ended_at=now,
        state=NotificationState.WAITING,
        attempts=0,
        next_attempt_at=now,
        sent_at=None,
        error=None,
    )


def _silenced(message: Notification, reason: str | None = None) -> Notification:
    return replace(message, state=NotificationState.SILENCED, next_attempt_at=None, error=reason)


def _describe(error: CatalogError) -> str:
    return error.message if error.hint is None else f"{error.message}; {error.hint}"
