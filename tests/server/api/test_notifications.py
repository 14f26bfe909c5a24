"""Notifications over HTTP and end to end: a problem in the database becomes a message at a real receiver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from catalog.errors import Unavailable
from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.jobs.optimizer import Optimizer
from catalog.jobs.stream import Stream, stop_stream
from catalog.notifications.rule import SECRET_PREFIX
from firn.protocol.operations import OperationStatus
from firn.protocol.streams import StreamStatus
from server.service.notifications import outbox as outbox_module
from server.service.notifications.outbox import MOST_MESSAGES
from server.service.notifications.problem_sources import table_key
from tests.factories import a_job, an_operation, an_optimizer
from tests.receivers import HttpReceiver, http_receiver
from tests.server.asgi import client_of
from tests.server.default_settings import settings_in
from tests.server.lake import PLAIN, Lake
from tests.server.notification_stage import AT, RULE, RULES, Clock, FakeCourier, Stage, a_stream, late_table

EVERY = [
    "job_failed",
    "job_unknown",
    "optimizer_lost",
    "stream_stopped",
    "out_of_sync",
    "duplicate_keys",
    "not_fresh",
    "migration_ended",
]


@pytest.fixture
def stage(plain_lake: Lake) -> Iterator[Stage]:
    own, courier, clock = plain_lake.services, FakeCourier(), Clock()
    sources = replace(own.outbox.sources, clock=clock, _began=None, _last=None, _slow_at=None)
    outbox = replace(own.outbox, rules=replace(own.outbox.rules, courier=courier), sources=sources)
    services = replace(own, outbox=outbox)
    http = client_of(services, settings_in(plain_lake.warehouse.parent / "data"))
    yield Stage(services, courier, http, clock)
    for rule in services.notification_rules.list():
        services.notification_rules.drop(rule.rule.name)
    with services.database.writing() as uow:
        uow.notifications.remove_before(uow.now() + timedelta(days=1), most=0)


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with http_receiver() as running:
        yield running


def test_rules_are_created_listed_changed_and_dropped(stage: Stage) -> None:
    url = "https://hooks.example.com/x?key=s3cret"
    created = stage.create(url=url, catalog="lake")
    secret = created["secret"]
    assert secret.startswith(SECRET_PREFIX)
    assert (created["address"], created["open"], created["last"]) == ("https://hooks.example.com/x", 0, None)
    for answer in (stage.http.get(RULES), stage.http.get(f"{RULES}/ops"), stage.http.get(AT)):
        assert answer.status_code == 200
        for hidden in (secret, "s3cret", "sealed"):
            assert hidden not in answer.text
    stored = stage.services.notification_rules.get("ops").rule
    assert "s3cret" not in repr(vars(type(stored))) + str(stored.sealed_url) + str(stored.sealed_secret)
    assert stage.services.notification_rules.reveal_target(stored).url == url
    changed = stage.http.request("PATCH", f"{RULES}/ops", json={"kinds": ["not_fresh"]}).json()
    assert (changed["kinds"], changed["resolved"]) == (["not_fresh"], True)
    assert stage.http.post(RULES, json={**RULE, "url": url}).status_code == 409
    assert stage.http.delete(f"{RULES}/ops").status_code == 204
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/test")):
        assert stage.http.request(method, f"{RULES}/ops{path}").status_code == 404


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"name": "a/b"}, 400),
        ({"kinds": []}, 400),
        ({"kinds": ["everything"]}, 422),
        ({"channel": "pager"}, 422),
        ({"catalog": "nowhere"}, 404),
        ({"url": None}, 400),
        ({"url": "http://169.254.169.254/s3cret"}, 400),
        ({"url": "ftp://example.com/s3cret"}, 400),
        ({"secret": "s3cret-s3cret"}, 400),
        ({"channel": "slack", "secret": "whsec_" + "A" * 44}, 400),
        ({"recipients": ["a@b"]}, 400),
        ({"channel": "mail", "url": None, "recipients": ["a@b\r\nBcc: c@d"]}, 400),
        ({"channel": "mail", "url": None, "recipients": ["a@b"]}, 400),  # no mail server
        ({"sealed_url": "x"}, 422),
    ],
)
def test_bad_rules_are_refused_and_secrets_not_repeated(stage: Stage, changes: dict[str, Any], status: int) -> None:
    refused = stage.http.post(RULES, json={**RULE, "url": "https://example.com/", **changes})
    assert refused.status_code == status, refused.text
    assert "s3cret" not in refused.text
    assert stage.http.get(RULES).json() == []


def test_a_failed_job_reaches_a_real_webhook(stage: Stage, plain_lake: Lake, receiver: HttpReceiver) -> None:
    rules = replace(stage.outbox.rules, courier=plain_lake.services.outbox.rules.courier)
    outbox = replace(stage.outbox, rules=rules)
    stage.create(url=receiver.url)
    job = stage.fail()
    assert outbox.run_once().sent == 1
    assert outbox.run_once().sent == 0
    (got,) = receiver.received
    event = json.loads(got.body)
    assert (event["type"], event["data"]["subject"]) == ("firn.notification.opened", str(PLAIN))
    assert event["data"]["message"] == "no space left"
    assert event["data"]["link"] == f"/jobs/{job.id}"
    (message,) = stage.history()
    assert (message["id"], message["state"], message["attempts"]) == (event["id"], "sent", 1)
    assert stage.http.get(RULES).json()[0]["last"]["state"] == "sent"


def test_a_table_that_fails_again_and_again_is_reported_once_and_its_end_too(stage: Stage) -> None:
    stage.create()
    job = stage.fail()
    assert stage.look() == [f"merge of {PLAIN} failed"]
    stage.fail(subject_id=job.subject_id)
    assert stage.look() == []
    stage.succeed(job)
    assert stage.look() == [f"Resolved: merge of {PLAIN} failed"]
    assert stage.courier.sent[-1].type == "firn.notification.resolved"
    assert stage.look() == []
    stage.fail(subject_id=job.subject_id)
    assert len(stage.look()) == 1


def test_a_new_rule_does_not_repeat_old_failures(stage: Stage) -> None:
    stage.fail()
    stage.create()
    assert stage.look() == []


def test_a_server_that_dies_before_it_sends_loses_nothing(stage: Stage) -> None:
    stage.create()
    stage.fail()
    assert stage.outbox.collect() == (1, 0)
    # The next server looks again, and sends.
    assert stage.look() == [f"merge of {PLAIN} failed"]
    assert len(stage.history()) == 1


def test_a_server_that_dies_after_it_has_sent_repeats_the_message(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.create()
    stage.fail()
    stage.courier.then = SystemExit()
    with pytest.raises(SystemExit):
        stage.outbox.run_once()
    stage.courier.then = None
    assert stage.look() == []  # for two minutes nobody else sends it
    monkeypatch.setattr(outbox_module, "CLAIM", timedelta(0))
    with stage.services.database.writing() as uow:
        (message,) = uow.notifications.list(limit=1).items
        uow.notifications.claim(message, uow.now())
    assert len(stage.look()) == 1
    first, second = stage.courier.sent
    assert first.id == second.id


def test_a_receiver_that_is_away_is_tried_again_and_given_up(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.create()
    stage.fail()
    stage.courier.error = Unavailable("it answers 500", hint="check it")
    assert stage.look() == []
    (message,) = stage.history()
    assert (message["state"], message["attempts"], message["error"]) == ("waiting", 1, "it answers 500; check it")
    assert message["next_attempt_at"] is not None

    def give_up(_attempts: int, _now: datetime) -> None:
        return None

    monkeypatch.setattr(outbox_module, "next_attempt", give_up)
    with stage.services.database.writing() as uow:
        waiting = uow.notifications.list(limit=1).items[0]
        uow.notifications.claim(waiting, uow.now())
    assert stage.look() == []
    (failed,) = stage.history()
    assert failed["state"] == "failed"
    assert stage.http.get(AT, params={"state": "failed"}).json()["items"] == [failed]
    stage.courier.error = None
    retried = stage.http.post(f"{AT}/{failed['id']}/retry")
    assert (retried.status_code, retried.json()["state"]) == (200, "waiting")
    assert len(stage.look()) == 1
    assert stage.http.post(f"{AT}/{failed['id']}/retry").status_code == 409
    assert stage.http.post(f"{AT}/{uuid4()}/retry").status_code == 404


def test_a_fault_of_the_server_is_put_off_like_a_receiver_that_is_away(stage: Stage) -> None:
    stage.create()
    stage.fail()
    stage.courier.then = ValueError("a bug")
    stage.look()
    (message,) = stage.history()
    assert (message["state"], message["error"]) == ("waiting", "unexpected ValueError; see the server's log")


def test_silences(stage: Stage) -> None:
    stage.create()
    silenced = stage.http.post(f"{RULES}/ops/silence", json={"minutes": 60, "subject": str(PLAIN)}).json()
    assert silenced["silences"][0]["subject"] == str(PLAIN)
    stage.fail()
    assert stage.look() == []
    assert [message["state"] for message in stage.history()] == ["silenced"]
    stage.http.post(f"{RULES}/ops/silence", json={"minutes": 0, "subject": str(PLAIN)})
    assert len(stage.look()) == 1
    whole = stage.http.post(f"{RULES}/ops/silence", json={"minutes": 5}).json()
    assert whole["silenced_until"] is not None
    stage.succeed(stage.fail())
    assert stage.look() == []
    for body in ({"minutes": -1}, {"minutes": 10**9}, {"minutes": "5"}, {}):
        assert stage.http.post(f"{RULES}/ops/silence", json=body).status_code == 422


def test_a_flood_is_kept_back(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.create()
    for _ in range(MOST_MESSAGES + 3):
        stage.fail()
    assert len(stage.look()) == MOST_MESSAGES
    assert sum("kept back" in (message["error"] or "") for message in stage.history()) == 3
    assert stage.look() == []
    monkeypatch.setattr(outbox_module, "PERIOD", timedelta(0))
    assert len(stage.look()) == 3


def test_a_test_message_tells_what_the_receiver_answered(stage: Stage) -> None:
    stage.create()
    assert stage.http.post(f"{RULES}/ops/test").json() == {"accepted": True, "error": None}
    stage.courier.error = Unavailable("it answers 500")
    assert stage.http.post(f"{RULES}/ops/test").json() == {"accepted": False, "error": "it answers 500"}
    assert stage.history() == []


def test_a_dropped_rule_gives_its_messages_up(stage: Stage) -> None:
    stage.create()
    stage.fail()
    stage.outbox.collect()
    stage.http.delete(f"{RULES}/ops")
    assert stage.look() == []
    (message,) = stage.history()
    assert (message["state"], message["error"]) == ("failed", "the rule was dropped")


def test_a_secret_of_another_rule_is_of_no_use(stage: Stage) -> None:
    stage.create()
    stage.create(name="other")
    with stage.services.database.writing() as uow:
        ops, other = uow.notification_rules.get("ops"), uow.notification_rules.get("other")
        uow.notification_rules.put(replace(ops, sealed_url=other.sealed_url))
    result = stage.http.post(f"{RULES}/ops/test").json()
    assert (result["accepted"], "cannot be decrypted" in result["error"]) == (False, True)


def begin_problems(stage: Stage) -> tuple[Job, Job, Optimizer, Stream]:
    """A problem of each kind that needs no metastore, but for late tables and failed jobs."""
    with stage.services.database.writing() as uow:
        now = uow.now()
        relation = uow.relations.find(stage.services.namespaces.catalogs()[0].name, PLAIN)
        assert relation is not None
        check = a_job(JobStatus.SUCCEEDED, kind=JobKind.KEYS, table=PLAIN, ended_at=now, result={"keys": 2})
        uow.jobs.add(check)
        unknown = a_job(JobStatus.UNKNOWN, table=PLAIN, lease_until=now)
        uow.jobs.add(unknown)
        lost = an_optimizer(last_seen_at=now - stage.outbox.sources.lease)
        uow.optimizers.put(lost)
        stream = a_stream(relation.id, now)
        assert uow.streams.add(stream)
        uow.streams.put(stop_stream(stream, "the topic is gone", "create it", now))
        uow.operations.add(an_operation(status=OperationStatus.FAILED, ended_at=now, error="no metastore"))
    return check, unknown, lost, stream


def test_every_kind_of_problem(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.create(kinds=EVERY)
    stage.look()
    stage.look(0.9)
    check, unknown, lost, stream = begin_problems(stage)
    late = late_table(stream.created_at)
    monkeypatch.setattr(type(stage.outbox.sources.measurements), "load", lambda _: [late])
    stage.fail()
    assert sorted(stage.look(0.9)) == sorted(
        [
            f"merge of {PLAIN} failed",
            f"merge of {PLAIN} has an unknown outcome",
            f"Optimizer {lost.id} is lost",
            f"The stream into {PLAIN} has stopped",
            f"{PLAIN} has duplicate keys",
            "mart.daily is not fresh",
            f"{an_operation().kind} of {an_operation().target}: failed",
        ]
    )
    monkeypatch.setattr(type(stage.outbox.sources.measurements), "load", lambda _: [replace(late, behind_since=None)])
    with stage.services.database.writing() as uow:
        now = uow.now()
        uow.jobs.put(replace(unknown, status=JobStatus.SUCCEEDED, ended_at=now))
        uow.jobs.add(replace(check, id=a_job().id, ended_at=now, result={"keys": 0}))
        uow.optimizers.put(replace(lost, last_seen_at=now + stage.outbox.sources.lease))
        uow.streams.put(replace(stream, status=StreamStatus.WAITING))
    resolved = stage.look(0.6) + stage.look(0.6)
    assert len(resolved) == 5
    assert all(title.startswith("Resolved: ") for title in resolved)
    assert table_key("lake", "mart.daily") in stage.outbox.sources.measured


def test_optimizers_get_time_for_a_sign_of_life_after_a_pause_of_the_server(stage: Stage) -> None:
    stage.create(kinds=["optimizer_lost"])
    with stage.services.database.writing() as uow:
        uow.optimizers.put(an_optimizer(id="paused-1", last_seen_at=uow.now() - stage.outbox.sources.lease))
    assert stage.look(60) == []
    assert stage.look(0.5) == []
    assert [title for title in stage.look(0.9) if "paused-1" in title] == ["Optimizer paused-1 is lost"]
