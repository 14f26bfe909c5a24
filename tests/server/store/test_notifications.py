"""Rules, messages and the facts behind problems, in both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from catalog.errors import AlreadyExists, Conflict, NotFound
from catalog.hive.wave import Wave
from catalog.jobs.job import JobKind, JobStatus
from catalog.jobs.operation import BatchId
from catalog.notifications.message import Notification, NotificationId
from catalog.notifications.problem import OpenProblem
from catalog.notifications.rule import Rule, RuleId
from catalog.ports.store import Database
from firn.protocol.notifications import Channel, NotificationState, ProblemKind
from firn.protocol.operations import OperationKind, OperationStatus
from tests.catalog.notifications.test_notifications import a_problem, message_of
from tests.factories import LAKE, LATER, NOW, a_job, an_operation

RULE = Rule(
    id=RuleId(UUID(int=1)),
    name="r",
    kinds=(ProblemKind.JOB_FAILED, ProblemKind.NOT_FRESH),
    channel=Channel.MAIL,
    created_at=NOW,
    created_by="ann",
    catalog="lake",
    recipients=("a@b",),
    silences={"db.t'\u202e": LATER},
)
OLD = NOW - timedelta(days=40)


def test_a_rule_comes_back_as_it_was_put(database: Database) -> None:
    with database.writing() as uow:
        uow.notification_rules.add(RULE)
        with pytest.raises(AlreadyExists):
            uow.notification_rules.add(replace(RULE, id=RuleId(uuid4())))
        assert uow.notification_rules.get("r") == uow.notification_rules.lock("r") == RULE
        changed = replace(RULE, kinds=(ProblemKind.OUT_OF_SYNC,), silenced_until=LATER, sealed_url="x", silences={})
        uow.notification_rules.put(changed)
        assert uow.notification_rules.list() == [changed]
        uow.notification_rules.remove(RULE.id)
        with pytest.raises(NotFound):
            uow.notification_rules.get("r")


def test_a_problem_that_goes_on_is_written_once(database: Database) -> None:
    with database.writing() as uow:
        first = due()
        assert uow.notifications.open(RULE, a_problem(), first)
        assert not uow.notifications.open(RULE, a_problem(), due())
        assert uow.notifications.open(replace(RULE, id=RuleId(UUID(int=2))), a_problem(), due())
        (open_problem,) = uow.notifications.list_open(RULE.id)
        assert open_problem == OpenProblem(
            number=open_problem.number, kind=ProblemKind.JOB_FAILED, key="k", since=LATER
        )
        stored = uow.notifications.get_by_number(open_problem.number)
        assert stored == replace(first, number=open_problem.number)
        assert uow.notifications.count_open() == {RULE.id: 1, RuleId(UUID(int=2)): 1}
        assert uow.notifications.close(open_problem.number, LATER)
        assert not uow.notifications.close(open_problem.number, LATER)
        ended = replace(due(), is_resolution=True, ended_at=LATER)
        uow.notifications.add_resolution(RULE, open_problem, ended)
        assert uow.notifications.list_open(RULE.id) == []
        assert uow.notifications.open(RULE, a_problem(), due())  # it has begun again
        assert uow.notifications.last_of([RULE.id])[RULE.id].ended_at is None


def test_one_server_claims_a_message(database: Database) -> None:
    with database.writing() as uow:
        uow.notifications.open(RULE, a_problem(), due())
        ((rule_id, message),) = uow.notifications.list_due(LATER, limit=10)
        assert rule_id == RULE.id
        assert uow.notifications.claim(message, LATER + timedelta(minutes=2))
        assert not uow.notifications.claim(message, LATER + timedelta(minutes=2))
        assert uow.notifications.list_due(LATER, limit=10) == []
        ((_, again),) = uow.notifications.list_due(LATER + timedelta(minutes=2), limit=10)
        assert again.attempts == 1
        assert uow.notifications.claim(again, LATER)
        assert uow.notifications.count_recent(RULE.id, NOW) == 1
        uow.notifications.settle(again.id, NotificationState.SENT, LATER)
        assert not uow.notifications.claim(replace(again, attempts=2), LATER)
        assert uow.notifications.count() == {NotificationState.SENT: 1}
        assert uow.notifications.count_recent(RULE.id, LATER + timedelta(minutes=1)) == 0


def test_a_failed_message_is_retried(database: Database) -> None:
    with database.writing() as uow:
        message = due()
        uow.notifications.open(RULE, a_problem(), message)
        with pytest.raises(Conflict):
            uow.notifications.retry(message.id, LATER)
        with pytest.raises(NotFound):
            uow.notifications.retry(NotificationId(uuid4()), LATER)
        uow.notifications.settle(message.id, NotificationState.FAILED, LATER, error="it answers 500")
        (failed,) = uow.notifications.list(rule="r", states=[NotificationState.FAILED], limit=10).items
        assert failed.error == "it answers 500"
        retried = uow.notifications.retry(message.id, LATER)
        assert (retried.state, retried.attempts, retried.error) == (NotificationState.WAITING, 0, None)


def test_silenced_messages_are_released(database: Database) -> None:
    with database.writing() as uow:
        silenced = replace(due(), state=NotificationState.SILENCED, next_attempt_at=None, error="kept back")
        uow.notifications.open(RULE, a_problem(), silenced)
        (stored,) = uow.notifications.list_silenced(RULE.id)
        assert uow.notifications.list_due(LATER, limit=10) == []
        uow.notifications.release(RULE.id, stored.number, NOW)
        ((_, message),) = uow.notifications.list_due(LATER, limit=10)
        assert message.error is None
        uow.notifications.close_all(RULE.id, "the rule was dropped", LATER)
        (given_up,) = uow.notifications.list(limit=10).items
        assert (given_up.state, given_up.ended_at) == (NotificationState.FAILED, LATER)


def test_the_history_has_an_age_and_a_size(database: Database) -> None:
    with database.writing() as uow:
        for number in range(6):
            key = str(number)
            uow.notifications.open(RULE, a_problem(key=key), replace(due(), created_at=OLD if number < 3 else NOW))
        numbers = [problem.number for problem in uow.notifications.list_open(RULE.id)]
        assert uow.notifications.remove_before(NOW - timedelta(days=30), most=100) == 0  # they wait and go on
        for message in uow.notifications.list(limit=10).items:
            if message.number != numbers[0]:
                uow.notifications.close(message.number, NOW)
            uow.notifications.settle(message.id, NotificationState.SENT, NOW)
        page = uow.notifications.list(limit=4)
        assert len(uow.notifications.list(limit=4, cursor=page.next_cursor).items) == 2
        assert uow.notifications.remove_before(NOW - timedelta(days=30), most=100) == 2
        assert uow.notifications.remove_before(NOW - timedelta(days=30), most=2) == 1
        left = [message.number for message in uow.notifications.list(limit=10).items]
        assert left == [numbers[5], numbers[4], numbers[0]]


def test_the_last_failure_of_a_kind_and_subject_counts(database: Database) -> None:
    subject = uuid4()
    with database.writing() as uow:
        facts = uow.problem_facts
        first = a_job(JobStatus.FAILED, subject_id=subject, ended_at=NOW)
        uow.jobs.add(first)
        assert facts.failed_jobs(NOW, limit=10) == [first]
        assert facts.failed_jobs(LATER, limit=10) == []
        uow.jobs.add(a_job(JobStatus.SUCCEEDED, subject_id=subject, kind=JobKind.EXPIRE, ended_at=LATER))
        uow.jobs.add(a_job(JobStatus.CANCELED, subject_id=subject, ended_at=LATER))
        assert facts.failed_jobs(NOW, limit=10) == [first]
        second = a_job(JobStatus.FAILED, subject_id=subject, ended_at=LATER)
        uow.jobs.add(second)
        assert facts.failed_jobs(NOW, limit=10) == [second]
        assert facts.last_success(subject, JobKind.MERGE, NOW) is None
        success = a_job(JobStatus.SUCCEEDED, subject_id=subject, ended_at=LATER)
        uow.jobs.add(success)
        assert facts.failed_jobs(NOW, limit=10) == []
        assert facts.last_success(subject, JobKind.MERGE, NOW) == success


def test_the_last_check_of_keys_counts(database: Database) -> None:
    subject = uuid4()
    with database.writing() as uow:
        check = a_job(JobStatus.SUCCEEDED, subject_id=subject, kind=JobKind.KEYS, ended_at=NOW, result={"keys": 1})
        uow.jobs.add(check)
        uow.jobs.add(a_job(JobStatus.SUCCEEDED, subject_id=subject, ended_at=LATER))
        assert uow.problem_facts.key_checks(NOW, limit=10) == [check]
        uow.jobs.add(replace(check, id=a_job().id, ended_at=LATER))
        assert [job.ended_at for job in uow.problem_facts.key_checks(NOW, limit=10)] == [LATER]


def test_ended_operations_and_waves(database: Database) -> None:
    batch, running = BatchId(uuid4()), BatchId(uuid4())
    ended = an_operation(status=OperationStatus.SUCCEEDED, ended_at=NOW)
    with database.writing() as uow:
        uow.operations.add(ended)
        uow.operations.add(an_operation(status=OperationStatus.RUNNING))
        uow.operations.add(replace(ended, id=an_operation().id, kind=OperationKind.CHECK))
        for of, second in ((batch, ended), (running, an_operation(status=OperationStatus.RUNNING))):
            uow.waves.add(a_wave(of))
            for operation in (ended, second):
                uow.operations.add(replace(operation, id=an_operation().id, batch=of))
        facts = uow.problem_facts
        assert facts.ended_operations(NOW, limit=10) == [ended]
        assert facts.ended_operations(LATER, limit=10) == []
        (wave,) = facts.ended_waves(NOW, limit=10)
        assert (wave.batch, wave.ended_at, wave.stopped) == (batch, NOW, None)
        uow.waves.put(replace(a_wave(running), stopped="1 table has failed"))
        assert [wave.stopped for wave in facts.ended_waves(NOW, limit=10)] == ["1 table has failed", None]
        assert facts.divergences(limit=10) == []


def a_wave(batch: BatchId) -> Wave:
    return Wave(batch=batch, catalog=LAKE, name="w", kind=OperationKind.UPGRADE, selection={}, tables=2, created_at=NOW)


def due() -> Notification:
    return replace(message_of(), id=NotificationId(uuid4()), next_attempt_at=NOW)
