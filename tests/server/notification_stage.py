"""A server whose notifications go to a courier of the test, and what problems are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from catalog.errors import CatalogError
from catalog.jobs.job import Job, JobStatus
from catalog.jobs.stream import Stream, StreamId
from catalog.notifications.message import Message
from catalog.notifications.rule import Target
from firn.protocol.streams import StreamKind, StreamStatus
from server.service.notifications.outbox import Outbox
from server.service.pipelines.measurements import TableMeasurements
from server.service.services import Services
from tests.factories import a_job
from tests.server.asgi import Client
from tests.server.lake import PLAIN

AT = "/api/v1/notifications"
RULES = f"{AT}/rules"
RULE = {"name": "ops", "kinds": ["job_failed"], "channel": "webhook"}


@dataclass
class FakeCourier:
    """Keeps messages; raises `error` instead, if it is set. `then` is raised after a message was kept."""

    sent: list[Message] = field(default_factory=list)
    error: CatalogError | None = None
    then: BaseException | None = None
    can_mail: bool = False

    def send(self, target: Target, message: Message) -> None:
        assert target.url or target.recipients
        if self.error is not None:
            raise self.error
        self.sent.append(message)
        if self.then is not None:
            raise self.then

    def titles(self) -> list[str]:
        return [message.title for message in self.sent]


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Stage:
    services: Services
    courier: FakeCourier
    http: Client
    clock: Clock

    @property
    def outbox(self) -> Outbox:
        return self.services.outbox

    def look(self, minutes: float = 2) -> list[str]:
        """A later look; the titles of what it has sent."""
        self.clock.seconds += minutes * 60
        before = len(self.courier.sent)
        self.outbox.run_once()
        return self.courier.titles()[before:]

    def create(self, **values: Any) -> dict[str, Any]:
        created = self.http.post(RULES, json={**RULE, "url": "http://127.0.0.1:9/", **values})
        assert created.status_code == 201, created.text
        document: dict[str, Any] = created.json()
        return document

    def fail(self, **values: Any) -> Job:
        with self.services.database.writing() as uow:
            now = uow.now()
            job = a_job(JobStatus.FAILED, table=PLAIN, error="no space left", ended_at=now, **values)
            uow.jobs.add(job)
        return job

    def succeed(self, job: Job) -> None:
        with self.services.database.writing() as uow:
            later = a_job(JobStatus.SUCCEEDED, subject_id=job.subject_id, kind=job.kind, ended_at=uow.now())
            uow.jobs.add(later)

    def history(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.http.get(AT).json()["items"]
        return items


def a_stream(relation_id: Any, now: datetime) -> Stream:
    return Stream(
        id=StreamId(uuid4()),
        catalog=a_job().catalog,
        relation_id=relation_id,
        kind=next(iter(StreamKind)),
        status=StreamStatus.WAITING,
        group="default",
        created_at=now,
        changed_at=now,
        retry_at=now,
        current_at=now,
    )


def late_table(now: datetime) -> TableMeasurements:
    return TableMeasurements(
        catalog="lake",
        table="mart.daily",
        state="behind",
        inputs_behind=1,
        behind_since=now - timedelta(seconds=60),
        target_seconds=60.0,
        is_failing=False,
        run_seconds=1.0,
        rows={},
    )
