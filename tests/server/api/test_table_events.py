"""Table events end to end: commits and ended jobs become CloudEvents, in order and at least once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from catalog.errors import CatalogError, Invalid, Unavailable
from catalog.jobs.job import JobStatus
from catalog.names import TableName
from catalog.notifications.message import MOST_EVENT_ATTEMPTS, Message
from catalog.notifications.rule import Target
from firn.protocol.notifications import EVENT_KINDS, NotificationState
from server.service.notifications import event_delivery as delivery_module
from server.service.notifications import event_messages as messages_module
from server.service.notifications.event_delivery import EventDelivery
from server.service.notifications.event_messages import EventMessages
from tests.factories import LAKE, a_job
from tests.receivers import http_receiver
from tests.server.asgi import Client
from tests.server.clocks import HOUR, Clock
from tests.server.lake import CHANGE, ORDERS, PLAIN, Lake
from tests.server.notification_stage import AT, RULES

EVERY = [str(kind) for kind in EVENT_KINDS]
OTHER = TableName(("db",), "other")
URL = "http://127.0.0.1:9/"


@dataclass
class Receiver:
    """Keeps messages; `errors` has what it raises about a table instead, and `dies` ends the server after one."""

    sent: list[Message] = field(default_factory=list)
    errors: dict[str, CatalogError] = field(default_factory=dict)
    dies: bool = False
    can_mail: bool = False

    def send(self, target: Target, message: Message) -> None:
        assert target.url
        for table, error in self.errors.items():
            if table in (message.subject, "*"):
                raise error
        self.sent.append(message)
        if self.dies:
            raise KeyboardInterrupt

    def operations(self) -> list[tuple[str, str]]:
        return [(message.subject, message.data["operation"]) for message in self.sent]


@dataclass
class Stage:
    lake: Lake
    receiver: Receiver
    delivery: EventDelivery
    http: Client

    def create(self, **values: Any) -> dict[str, Any]:
        rule = {"name": "feed", "kinds": EVERY, "channel": "webhook", "url": URL, **values}
        created = self.http.post(RULES, json=rule)
        assert created.status_code == 201, created.text
        document: dict[str, Any] = created.json()
        return document

    def restarted(self) -> EventDelivery:
        """What a server that has just started has."""
        return replace(self.delivery, messages=EventMessages(self.delivery.rules.database))

    def rule(self) -> dict[str, Any]:
        document: dict[str, Any] = self.http.get(f"{RULES}/feed").json()
        return document

    def wait(self) -> None:
        """Let all pauses and claims be over."""
        with self.lake.services.database.writing() as uow:
            (rule,) = uow.notification_rules.list()
            waiting = [message.id for message in uow.event_messages.list_waiting(rule.id, limit=10_000)]
            uow.event_messages.unclaim(waiting, uow.now())


@pytest.fixture
def stage(plain_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(messages_module, "JOBS_EVERY_SECONDS", 0.0)
    receiver, own = Receiver(), plain_lake.services
    rules = replace(own.notification_rules, courier=receiver)
    delivery = EventDelivery(rules, EventMessages(own.database), timedelta(days=30))
    yield Stage(plain_lake, receiver, delivery, plain_lake.client)
    for view in rules.list():
        rules.drop(view.rule.name)
    with own.database.writing() as uow:
        for state in NotificationState:
            uow.notifications.remove_events(state, uow.now() + timedelta(days=1), most=0)


def test_a_commit_reaches_a_real_receiver_as_a_cloud_event(stage: Stage) -> None:
    with http_receiver() as receiver:
        rules = replace(stage.delivery.rules, courier=stage.lake.services.notification_rules.courier)
        stage.create(url=receiver.url)
        snapshot_id = stage.lake.append(PLAIN, rows=7)
        status = replace(stage.delivery, rules=rules).run_once()
    assert (status.written, status.sent, status.not_sent) == (1, 1, 0)
    (request,) = receiver.received
    event = json.loads(request.body)
    assert request.headers["content-type"] == "application/cloudevents+json"
    assert request.headers["webhook-id"] == event["id"]
    assert (event["specversion"], event["type"], event["subject"]) == ("1.0", "dev.firn.table.committed", "db.plain")
    data = event["data"]
    assert event["partitionkey"] == data["table_id"]
    assert int(event["sequence"]) == data["event"] > 0
    assert len(event["sequence"]) == 20
    figures = ("catalog", "namespace", "table", "operation", "snapshot_id", "added_rows", "added_files", "store")
    assert [data[name] for name in figures] == ["lake", "db", "plain", "append", str(snapshot_id), 7, 1, None]
    (message,) = stage.http.get(AT).json()["items"]
    assert (message["state"], message["attempts"], message["data"]["added_rows"]) == ("sent", 1, 7)


def test_the_life_of_a_table_is_told_in_order(stage: Stage) -> None:
    stage.create()
    stage.lake.create(OTHER)
    stage.lake.append(OTHER)
    stage.lake.services.tables.rename(LAKE, OTHER, TableName(("db",), "newer"))
    stage.lake.append(TableName(("db",), "newer"))
    stage.lake.services.drop(LAKE, TableName(("db",), "newer"))
    stage.delivery.run_once()
    sent = stage.receiver.sent
    kinds = ["created", "committed", "renamed", "committed", "dropped"]
    assert [message.type for message in sent] == [f"dev.firn.table.{kind}" for kind in kinds]
    assert [message.subject for message in sent] == ["db.other", "db.other", "db.newer", "db.newer", "db.newer"]
    assert len({message.data["table_id"] for message in sent}) == 1
    assert sent[2].data["renamed_from"] == "db.other"
    assert stage.delivery.run_once().written == 0


def test_commits_of_stores_count_as_their_keyed_table(stage: Stage) -> None:
    stage.create(kinds=["table_committed"], tables=["db.orders"])
    stage.lake.create_keyed()
    stage.lake.append(CHANGE, rows=3)
    stage.lake.append(PLAIN)
    stage.delivery.run_once()
    (message,) = stage.receiver.sent
    assert (message.subject, message.data["table"], message.data["store"]) == (str(ORDERS), "orders", "change")


def test_an_ended_job_is_sent_once(stage: Stage) -> None:
    stage.create(kinds=["job_ended"])
    with stage.lake.services.database.writing() as uow:
        result = {"files": 3, "note": "x", "share": float("nan"), "huge": 2**70}
        job = a_job(JobStatus.SUCCEEDED, table=PLAIN, ended_at=uow.now(), result=result)
        uow.jobs.add(job)
    assert stage.delivery.run_once().sent == 1
    assert stage.delivery.run_once().written == 0
    assert stage.restarted().run_once().written == 0
    (message,) = stage.receiver.sent
    assert (message.type, message.data["job_id"], message.data["status"]) == (
        "dev.firn.job.ended",
        str(job.id),
        "succeeded",
    )
    assert message.data["figures"] == {"files": 3}


def test_a_job_that_ends_after_the_clock_was_set_back_is_sent_once(stage: Stage, clock: Clock) -> None:
    clock.wrong = -3 * HOUR  # the rules of other tests are younger than these jobs
    table = TableName(("db",), "set_back")
    stage.create(kinds=["job_ended"], tables=[str(table)])
    for hours in (-1, -2, -1, -2):
        clock.wrong = hours * HOUR
        with stage.lake.services.database.writing() as uow:
            uow.jobs.add(a_job(JobStatus.SUCCEEDED, table=table, ended_at=uow.now()))
        assert stage.restarted().run_once().written == 1
        assert stage.restarted().run_once().written == 0


def test_a_message_holds_back_its_table_alone(stage: Stage) -> None:
    stage.lake.create(TableName(("db",), "held"))
    stage.create()
    stage.receiver.errors = {"db.held": Unavailable("it answers 503")}
    first = stage.lake.append(TableName(("db",), "held"))
    stage.lake.append(PLAIN)
    second = stage.lake.append(TableName(("db",), "held"))
    status = stage.delivery.run_once()
    assert (status.sent, status.not_sent) == (1, 1)
    assert stage.delivery.run_once().not_sent == 0  # it waits
    rule = stage.rule()
    assert (rule["waiting"], rule["failed"]) == (2, 0)
    stage.receiver.errors = {}
    stage.wait()
    assert stage.restarted().run_once().sent == 2
    snapshots = [message.data["snapshot_id"] for message in stage.receiver.sent if message.subject == "db.held"]
    assert snapshots == [str(first), str(second)]


def test_a_refused_message_is_a_dead_letter_that_can_be_sent_again(stage: Stage) -> None:
    stage.create()
    stage.receiver.errors = {"*": Invalid("it refuses the message: 400")}
    stage.lake.append(PLAIN)
    stage.lake.append(PLAIN)
    stage.delivery.run_once()
    dead = stage.http.get(f"{AT}?rule=feed&state=failed").json()["items"]
    assert [letter["error"] for letter in dead] == ["it refuses the message: 400"] * 2
    assert stage.rule()["failed"] == 2
    stage.receiver.errors = {}
    assert stage.http.post(f"{AT}/{dead[0]['id']}/retry").status_code == 200
    assert stage.http.post(f"{RULES}/feed/retry").json() == {"retried": 1}
    assert stage.delivery.run_once().sent == 2
    assert {message.id for message in stage.receiver.sent} == {letter["id"] for letter in dead}
    assert stage.http.post(f"{RULES}/nothing/retry").status_code == 404


def test_attempts_have_an_end(stage: Stage) -> None:
    stage.create()
    stage.receiver.errors = {"*": Unavailable("it does not answer")}
    stage.lake.append(PLAIN)
    for _ in range(MOST_EVENT_ATTEMPTS):
        stage.wait()
        stage.delivery.run_once()
    (dead,) = stage.http.get(f"{AT}?rule=feed&state=failed").json()["items"]
    assert (dead["attempts"], dead["error"]) == (MOST_EVENT_ATTEMPTS, "it does not answer")


def test_a_receiver_in_trouble_is_tried_for_few_tables(stage: Stage) -> None:
    names = [TableName(("db",), f"many{number}") for number in range(5)]
    for name in names:
        stage.lake.create(name)
    stage.create()
    stage.receiver.errors = {"*": Unavailable("it does not answer")}
    for name in names:
        stage.lake.append(name)
    assert stage.delivery.run_once().not_sent == delivery_module.MOST_TROUBLE
    assert stage.delivery.run_once().not_sent == 0
    stage.receiver.errors = {}
    stage.wait()
    assert stage.delivery.run_once().sent == 5


def test_a_server_that_dies_after_sending_sends_again_with_the_same_id(stage: Stage) -> None:
    stage.create()
    stage.lake.append(PLAIN)
    stage.receiver.dies = True
    with pytest.raises(KeyboardInterrupt):
        stage.delivery.run_once()
    stage.receiver.dies = False
    assert stage.restarted().run_once().sent == 0  # the claim of the dead server holds
    stage.wait()
    assert stage.restarted().run_once().sent == 1
    first, second = stage.receiver.sent
    assert first.id == second.id


def test_the_log_keeps_what_exceeds_the_backlog(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages_module, "MOST_WAITING", 4)
    monkeypatch.setattr(messages_module, "READ_AT_ONCE", 2)
    stage.create()
    stage.receiver.errors = {"*": Unavailable("it does not answer")}
    snapshots = [str(stage.lake.append(PLAIN)) for _ in range(9)]
    stage.delivery.run_once()
    assert stage.rule()["waiting"] == 4
    stage.receiver.errors = {}
    for _ in range(4):
        stage.wait()
        stage.restarted().run_once()
    assert [message.data["snapshot_id"] for message in stage.receiver.sent] == snapshots


def test_a_silent_rule_waits_and_loses_nothing(stage: Stage) -> None:
    stage.create()
    refused = stage.http.post(f"{RULES}/feed/silence", json={"minutes": 5, "subject": "db.plain"})
    assert refused.status_code == 400
    assert stage.http.post(f"{RULES}/feed/silence", json={"minutes": 5}).status_code == 200
    stage.lake.append(PLAIN)
    assert stage.delivery.run_once().written == 0
    stage.http.post(f"{RULES}/feed/silence", json={"minutes": 0})
    assert stage.delivery.run_once().sent == 1


def test_a_rule_reads_from_its_creation_on_and_passes_other_tables(stage: Stage) -> None:
    stage.lake.append(PLAIN)
    stage.create(tables=["shop.*", "db.oth*"], catalog="lake")
    for _ in range(3):
        stage.lake.append(PLAIN)
    assert stage.delivery.run_once().written == 0
    with stage.lake.services.database.reading() as uow:
        (rule,) = uow.notification_rules.list()
        noted = uow.notification_rules.event_position(rule.id).event_id
        assert noted < uow.events.last_id()  # passing commits is no write
    stage.lake.create(TableName(("db",), "other2"))
    assert stage.restarted().run_once().sent == 1
    with stage.lake.services.database.reading() as uow:
        assert uow.notification_rules.event_position(rule.id).event_id == uow.events.last_id()


def test_a_dropped_rule_gives_up_its_messages(stage: Stage) -> None:
    stage.create()
    stage.receiver.errors = {"*": Unavailable("it does not answer")}
    stage.lake.append(PLAIN)
    stage.delivery.run_once()
    stage.http.delete(f"{RULES}/feed")
    (dead,) = stage.http.get(f"{AT}?state=failed").json()["items"]
    assert dead["error"] == "the rule was dropped"
    assert stage.http.post(f"{AT}/{dead['id']}/retry").status_code == 409


def test_old_messages_are_removed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_module, "MOST_SENT", 1)
    stage.create()
    for _ in range(3):
        stage.lake.append(PLAIN)
    stage.delivery.run_once()
    assert stage.delivery.tidy() == 2
    assert stage.delivery.tidy() == 0
    assert stage.lake.services.outbox.tidy() == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"kinds": ["job_failed", "table_committed"]},
        {"kinds": ["job_failed"], "tables": ["db.*"]},
        {"channel": "slack"},
        {"channel": "mail", "url": None, "recipients": ["a@b"]},
        {"tables": [""]},
        {"tables": ["a\nb"]},
        {"tables": ["x" * 513]},
        {"tables": [f"t{number}" for number in range(51)]},
    ],
)
def test_bad_rules_of_events_are_refused(stage: Stage, changes: dict[str, Any]) -> None:
    body = {"name": "feed", "kinds": EVERY, "channel": "webhook", "url": URL, **changes}
    assert stage.http.post(RULES, json=body).status_code == 400
    assert stage.http.get(RULES).json() == []


def test_a_rule_stays_one_of_events(stage: Stage) -> None:
    stage.create()
    assert stage.http.request("PATCH", f"{RULES}/feed", json={"kinds": ["job_failed"]}).status_code == 400
    assert stage.http.request("PATCH", f"{RULES}/feed", json={"kinds": ["table_dropped"]}).status_code == 200
    assert stage.lake.services.outbox.run_once().began == 0
