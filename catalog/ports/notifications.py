"""Ports of notifications: their rules and messages, the facts behind problems, and the channels that send messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol
from uuid import UUID

from catalog.history.commit import CommitEvent
from catalog.jobs.job import Job
from catalog.jobs.operation import BatchId, Operation
from catalog.names import CatalogName, RelationId, TableName
from catalog.notifications.message import Message, Notification, NotificationId
from catalog.notifications.problem import OpenProblem, Problem
from catalog.notifications.rule import Rule, RuleId, Target
from catalog.ports.page import Page
from firn.protocol.notifications import NotificationState


class NotificationRules(Protocol):
    """Rules, by name."""

    def add(self, rule: Rule) -> None: ...
    def get(self, name: str) -> Rule:
        """Raises NotFound."""

    def lock(self, name: str) -> Rule:
        """The rule, which nobody else changes until this transaction ends; NotFound."""

    def put(self, rule: Rule) -> None: ...
    def event_position(self, rule_id: RuleId) -> EventPosition: ...
    def set_event_position(self, rule_id: RuleId, position: EventPosition) -> None: ...
    def list(self) -> Sequence[Rule]: ...
    def remove(self, rule_id: RuleId) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPosition:
    """What a rule of table events has read: commits up to a number, and jobs that ended up to a time."""

    event_id: int
    jobs_until: datetime


class LogEnd(NamedTuple):
    """An end of the log of commits, and the first transaction that was not running when it was read."""

    event_id: int
    transaction: int


class WaitingEvent(NamedTuple):
    """A message about a table event that is still to be sent."""

    id: NotificationId
    table_id: str
    next_attempt_at: datetime


class EventMessages(Protocol):
    """The rows that table events come from, and the messages about them, in order."""

    def log_end(self) -> LogEnd: ...

    def is_settled(self, end: LogEnd) -> bool:
        """Whether no transaction can add a commit with a number up to this end any more."""

    def commits(self, after: int, until: int, catalog: CatalogName | None, *, limit: int) -> Sequence[CommitEvent]:
        """Commits numbered above `after` and up to `until`, by number; None for all catalogs."""

    def ended_jobs(self, since: datetime, *, limit: int) -> Sequence[Job]:
        """Jobs that ended since then, by the time of their end."""

    def list_existing(self, ids: Collection[NotificationId]) -> Collection[NotificationId]:
        """Which of these messages exist."""

    def add(self, rule_id: RuleId, table_id: str, notification: Notification) -> bool:
        """Add a message; False if it exists."""

    def count_waiting(self, rule_id: RuleId) -> int: ...
    def list_waiting(self, rule_id: RuleId, *, limit: int) -> Sequence[WaitingEvent]:
        """The messages of a rule that wait, in the order of their creation."""

    def load(self, ids: Collection[NotificationId]) -> Sequence[Notification]:
        """Messages in the order of their creation."""

    def claim(self, ids: Collection[NotificationId], now: datetime, until: datetime) -> int:
        """Claim those messages that are due, and return their number. Nobody else sends them until then."""

    def count_attempt(self, ids: Collection[NotificationId]) -> None: ...
    def settle_sent(self, ids: Collection[NotificationId], now: datetime) -> None: ...
    def unclaim(self, ids: Collection[NotificationId], now: datetime) -> None:
        """Give back claimed messages that were not tried."""


class Notifications(Protocol):
    """Messages of rules: an outbox, and its history."""

    def open(self, rule: Rule, problem: Problem, notification: Notification) -> bool:
        """Add the first message about a problem; False if the rule has reported this problem already."""

    def add_resolution(self, rule: Rule, problem: OpenProblem, notification: Notification) -> None:
        """Add a message that a problem has ended. Call `close`, too."""

    def list_open(self, rule_id: RuleId) -> Sequence[OpenProblem]:
        """The problems that a rule has reported and that go on."""

    def get_by_number(self, number: int) -> Notification | None: ...

    def close(self, number: int, now: datetime) -> bool:
        """Note that a problem has ended; False if somebody else has."""

    def close_all(self, rule_id: RuleId, reason: str, now: datetime) -> None:
        """End all problems of a rule, and give up its messages that wait."""

    def release(self, rule_id: RuleId, number: int, now: datetime) -> None:
        """Let a silenced message be sent now."""

    def list_silenced(self, rule_id: RuleId) -> Sequence[Notification]:
        """Silenced messages about problems that go on."""

    def list_due(self, now: datetime, *, limit: int) -> Sequence[tuple[RuleId, Notification]]:
        """Messages about problems to send by now, oldest first."""

    def claim(self, notification: Notification, until: datetime) -> bool:
        """Count an attempt; False if another server has. Nobody else sends the message until then."""

    def settle(
        self,
        notification_id: NotificationId,
        state: NotificationState,
        now: datetime,
        *,
        next_attempt_at: datetime | None = None,
        error: str | None = None,
    ) -> None:
        """Store the result of an attempt."""

    def retry(self, notification_id: NotificationId, now: datetime) -> Notification:
        """Let a failed message be sent again; NotFound, and Conflict for one that has not failed."""

    def list(
        self,
        *,
        rule: str | None = None,
        states: Collection[NotificationState] = (),
        limit: int,
        cursor: str | None = None,
    ) -> Page[Notification]:
        """Newest first."""

    def last_of(self, rule_ids: Collection[RuleId]) -> Mapping[RuleId, Notification]:
        """The newest message of each rule."""

    def count_open(self) -> Mapping[RuleId, int]:
        """The number of open problems of each rule that has any."""

    def count_recent(self, rule_id: RuleId, since: datetime) -> int:
        """The number of messages of a rule that wait or were sent since then."""

    def count(self) -> Mapping[NotificationState, int]:
        """The number of messages by state."""

    def retry_all(self, rule_id: RuleId, now: datetime) -> int:
        """Let all failed messages of a rule be sent again; returns their number."""

    def count_by_rule(self) -> Mapping[RuleId, Mapping[NotificationState, int]]:
        """The numbers of messages of each rule that wait or have failed."""

    def remove_before(self, moment: datetime, *, most: int) -> int:
        """Delete old messages about problems, and the oldest ones above `most`.

        Never those that wait, or whose problem goes on.
        """

    def remove_events(self, state: NotificationState, moment: datetime, *, most: int) -> int:
        """Delete old messages about table events in this state, and the oldest ones above `most`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """A table that is out of sync with its Hive table."""

    relation_id: RelationId
    catalog: CatalogName
    table: TableName
    message: str
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedWave:
    """A wave that has ended or stopped, with its operations by outcome."""

    batch: BatchId
    catalog: CatalogName
    name: str
    tables: int
    stopped: str | None
    ended_at: datetime


class ProblemFacts(Protocol):
    """What tells problems; each query has a limit and uses an index."""

    def failed_jobs(self, since: datetime, *, limit: int) -> Sequence[Job]:
        """Jobs that failed since then and that are the last ended ones of their kind and subject; newest first."""

    def key_checks(self, since: datetime, *, limit: int) -> Sequence[Job]:
        """Checks of keys that ended since then and that are the last ones of their table; newest first."""

    def last_success(self, subject_id: UUID, kind: str, since: datetime) -> Job | None:
        """The newest job of this kind that has succeeded since then."""

    def divergences(self, *, limit: int) -> Sequence[Divergence]:
        """Tables that are out of sync with Hive."""

    def ended_operations(self, since: datetime, *, limit: int) -> Sequence[Operation]:
        """Operations that ended since then and belong to no wave, without checks; newest first."""

    def ended_waves(self, since: datetime, *, limit: int) -> Sequence[EndedWave]:
        """Waves of upgrades that ended or stopped since then, newest first."""


class Courier(Protocol):
    """Delivers messages by all channels."""

    @property
    def can_mail(self) -> bool:
        """Whether the settings name a mail server."""

    def send(self, target: Target, message: Message) -> None:
        """Deliver one message.

        Raises Unavailable if the receiver may take it later, and Invalid if it never will.
        """
